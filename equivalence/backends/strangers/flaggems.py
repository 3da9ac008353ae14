"""FlagGems' kernels (BAAI, github.com/flagos-ai/FlagGems) in Triton's interpreter.

It is no extra, since it asks for older packages than ours: pip install --no-deps flag_gems==5.0.2
PyYAML SQLAlchemy. docs/findings.md has what was found, and `flaggems_alone` what the adapter
replaces in order to import it.

FlagGems registers a function for each operator of ATen, forward and backward. The adapter calls
the pair that torch would call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from equivalence.backends.protocol import Capabilities
from equivalence.backends.strangers.flaggems_alone import module, told_of_a_device
from equivalence.backends.strangers.interpreted import as_compiled, contract

embedding: Any = module("embedding")
layernorm: Any = module("layernorm")
softmax: Any = module("softmax")
log_softmax: Any = module("log_softmax")

Gradients = Sequence[Tensor | None]


def _layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    result: Tensor = layernorm.layer_norm(x, x.shape[-1:], gamma, beta, eps)[0]
    return result


def _layer_norm_back(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Gradients:
    _, mean, rstd = layernorm.layer_norm(x, x.shape[-1:], gamma, beta, eps)
    found: Gradients = layernorm.layer_norm_backward(
        g, x, x.shape[-1:], mean, rstd, gamma, beta, [True, True, True]
    )
    return found


def _softmax(x: Tensor, axis: int = -1) -> Tensor:
    result: Tensor = softmax.softmax(x, axis)
    return result


def _softmax_back(g: Tensor, x: Tensor, axis: int = -1) -> Gradients:
    return [softmax.softmax_backward(g, softmax.softmax(x, axis), axis, x.dtype)]


def _log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    result: Tensor = log_softmax.log_softmax(x, axis)
    return result


def _log_softmax_back(g: Tensor, x: Tensor, axis: int = -1) -> Gradients:
    return [log_softmax.log_softmax_backward(g, log_softmax.log_softmax(x, axis), axis, x.dtype)]


def _embedding(indices: Tensor, table: Tensor) -> Tensor:
    result: Tensor = embedding.embedding(table, indices)
    return result


def _embedding_back(g: Tensor, indices: Tensor, table: Tensor) -> Gradients:
    return [None, embedding.embedding_backward(g, indices, table.shape[0])]


OPS: Mapping[str, tuple[Callable[..., Tensor], Callable[..., Gradients]]] = {
    "layer_norm": (_layer_norm, _layer_norm_back),
    "softmax": (_softmax, _softmax_back),
    "log_softmax": (_log_softmax, _log_softmax_back),
    "embedding": (_embedding, _embedding_back),
}

TAKES: Mapping[str, Mapping[str, Any]] = {
    "layer_norm": {"empty": False},
    "embedding": {"empty": False},
}


class FlagGems:
    """FlagGems' kernels, interpreted on a CPU."""

    name = "flaggems"

    def capabilities(self) -> Capabilities:
        """Offer the ops that FlagGems shares with the pages, under the page's contract."""
        return Capabilities(
            ops=dict.fromkeys(OPS, ("fp32", "fp16")),
            contract=contract,
            ring="interpreted",
            takes=TAKES,
        )

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        """Call what FlagGems registers for the operator."""
        with as_compiled(), told_of_a_device():
            return OPS[op][0](*inputs, **attrs)

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        """Call what FlagGems registers for its backward, on what its forward saves."""
        with as_compiled(), told_of_a_device():
            return OPS[op][1](cotangents[0], *inputs, **attrs)


class FlagGemsOfMatrices(FlagGems):
    """The same of matrices alone, of which the backward of layer_norm takes the rows rightly."""

    def capabilities(self) -> Capabilities:
        """Offer the same ops, layer_norm of rank 2."""
        part = {**TAKES["layer_norm"], "ranks": [2]}
        return replace(super().capabilities(), takes={**TAKES, "layer_norm": part})
