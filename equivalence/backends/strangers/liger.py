"""Liger's kernels (LinkedIn, github.com/linkedin/Liger-Kernel) in Triton's interpreter.

It needs the extra `liger`: pip install 'twingrad[liger]'. docs/findings.md has what was found.

Every op is Liger's autograd function. What the adapter does besides:

* The kernels write gradients over their inputs, so each call gets copies, with the same strides.
* `rsqrt` and `tanh` of libdevice exist on a GPU alone. The interpreter gets Triton's own `rsqrt`,
  to which Liger itself falls back for old versions, and the `tanh` of `fast`.
* The interpreter is given the compiler's floats and `and` (`as_compiled`).
* kl_div returns fp32, whatever came. The adapter casts it, so that the numbers are judged.
* silu and gelu are halves of Liger's gates `silu(a) b` and `gelu(a) b`: b is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from liger_kernel.ops import cross_entropy as cross_entropy_module
from liger_kernel.ops import geglu as geglu_module
from liger_kernel.ops import layer_norm as layer_norm_module
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction
from liger_kernel.ops.geglu import LigerGELUMulFunction
from liger_kernel.ops.kl_div import LigerKLDivLossFunction
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction
from torch import Tensor

from equivalence.backends.protocol import Capabilities
from equivalence.backends.strangers.forms import declared_by_liger
from equivalence.backends.strangers.interpreted import (
    as_compiled,
    contract,
    copied,
    through_autograd,
    tl,
    triton,
)
from fast.kernels.elementwise.functions import tanh


@triton.jit
def rsqrt(x):  # type: ignore[no-untyped-def]
    """Compute 1 / sqrt(x) as Triton does."""
    return tl.rsqrt(x)


def _softmax(x: Tensor, axis: int = -1) -> Tensor:
    del axis  # it is the last one (takes)
    return _tensor(LigerSoftmaxFunction.apply(x))


def _cross_entropy(
    logits: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
) -> Tensor:
    weights = None if weight is None else torch.tensor(weight, dtype=torch.float32)
    loss, *_ = LigerCrossEntropyFunction.apply(
        logits, labels, weights, ignore_index, 0.0, label_smoothing, reduction, None, False
    )
    return _tensor(loss)


def _kl_div(x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean") -> Tensor:
    found = _tensor(LigerKLDivLossFunction.apply(x, target, reduction, log_target, 1e-10))
    return found.to(x.dtype)


def _layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Let Liger, which normalizes the last axis, see all axes of gamma as one."""
    rows, *lines = (t.flatten(-gamma.dim()) for t in (x, gamma, beta))
    return _tensor(LigerLayerNormFunction.apply(rows, *lines, eps)).reshape(x.shape)


def _silu(x: Tensor) -> Tensor:
    return _tensor(LigerSiLUMulFunction.apply(x, torch.ones_like(x)))


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    del approximate  # it is "tanh" (takes)
    return _tensor(LigerGELUMulFunction.apply(x, torch.ones_like(x)))


def _embedding(indices: Tensor, table: Tensor) -> Tensor:
    return _tensor(LigerEmbeddingFunction.apply(table, indices))


def _tensor(found: Any) -> Tensor:
    """Say that an autograd function, whose annotations do not, returns a tensor."""
    assert isinstance(found, Tensor)
    return found


OPS: Mapping[str, Callable[..., Tensor]] = {
    "softmax": _softmax,
    "cross_entropy": _cross_entropy,
    "kl_div": _kl_div,
    "layer_norm": _layer_norm,
    "silu": _silu,
    "gelu": _gelu,
    "embedding": _embedding,
}

ROWS = {"ranks": [1, 2, 3, 4], "empty": False}
"""What Liger takes of an op of rows: there is a last axis, and it is not empty."""

TAKES: Mapping[str, Mapping[str, Any]] = {
    "softmax": {**ROWS, "axes": [-1]},
    "cross_entropy": {"ranks": [2], "empty": False},
    "kl_div": {"ranks": [2], "empty": False, "directions": ["value"]},
    "layer_norm": {"empty": False},
    "silu": ROWS,
    "gelu": {**ROWS, "attributes": {"approximate": ["tanh"]}},
    "embedding": {"empty": False},
}
"""Which part of each op Liger does. It gives no gradient of a target."""


DTYPES = ("fp32", "bf16", "fp16")

IN_FP32 = frozenset({"kl_div", "layer_norm"})
"""The ops whose kernels compute in fp32.

The others multiply in the dtype of their inputs, and Triton's interpreter multiplies nothing in
bf16: it takes the bits of a number for an integer.
"""


class Liger:
    """Liger's kernels, interpreted on a CPU."""

    name = "liger"

    def __init__(self) -> None:
        """Give the kernels what they import from libdevice."""
        libdevice: Any = {"rsqrt": rsqrt, "tanh": tanh}
        for module in (layer_norm_module, geglu_module, cross_entropy_module):
            for name, function in libdevice.items():
                if hasattr(module, name):
                    setattr(module, name, function)

    def capabilities(self) -> Capabilities:
        """Offer the ops that Liger shares with the pages, under the page's contract."""
        return Capabilities(
            ops={op: DTYPES if op in IN_FP32 else ("fp32", "fp16") for op in OPS},
            contract=contract,
            ring="interpreted",
            takes=TAKES,
        )

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        """Call Liger on copies."""
        with as_compiled():
            return OPS[op](*map(copied, inputs), **attrs).detach()

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        """Pull the cotangent back through Liger's own rule."""

        def call(*xs: Tensor) -> Tensor:
            return OPS[op](*xs, **attrs)

        with as_compiled():
            return through_autograd(call, [copied(x) for x in inputs], cotangents[0])


class DeclaredLiger(Liger):
    """Liger as a user may declare it: with its forms, and for the logits that it computes well."""

    def capabilities(self) -> Capabilities:
        """Offer the same ops, cross_entropy on rows that lie apart and whose last stride is 1."""
        rows = {**TAKES["cross_entropy"], "layouts": ["contiguous", "offset", "padded"]}
        return replace(
            super().capabilities(),
            contract=declared_by_liger,
            takes={**TAKES, "cross_entropy": rows},
        )
