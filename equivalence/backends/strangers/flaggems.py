"""FlagGems' kernels (BAAI, github.com/flagos-ai/FlagGems) in Triton's interpreter.

It is no extra, since it asks for older packages than ours: pip install --no-deps flag_gems==5.0.2
PyYAML SQLAlchemy. docs/findings.md has what was found, and `flaggems_alone` what the adapter
replaces in order to import it.

FlagGems registers a function for each operator of ATen: `flaggems_ops`, by the pages' names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from equivalence.backends.protocol import Capabilities
from equivalence.backends.strangers.flaggems_alone import module, told_of_a_device
from equivalence.backends.strangers.flaggems_ops import PAIRS, VALUES
from equivalence.backends.strangers.interpreted import as_compiled, contract

module("softmax")  # ModuleNotFoundError where FlagGems is not installed


TAKES: Mapping[str, Any] = {
    "layer_norm": {"empty": False},
    "embedding": {"empty": False},
    "nll_loss": {"ranks": (2,)},
    **{name: {"directions": ("value",)} for name in VALUES},
    "linear": {"directions": ("value",), "ranks": (2,)},
    "cumsum": {
        "directions": ("value",),
        "attributes": {"reverse": (False,), "exclusive": (False,)},
    },
}
"""Which part of an op the functions of FlagGems do."""


class FlagGems:
    """FlagGems' kernels, interpreted on a CPU."""

    name = "flaggems"

    def capabilities(self) -> Capabilities:
        """Offer the ops that FlagGems shares with the pages, under the page's contract."""
        return Capabilities(
            ops=dict.fromkeys((*PAIRS, *VALUES), ("fp32", "fp16")),
            contract=contract,
            ring="interpreted",
            takes=TAKES,
        )

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        """Call what FlagGems registers for the operator."""
        with as_compiled(), told_of_a_device():
            value = PAIRS[op][0] if op in PAIRS else VALUES[op]
            result: Tensor = value(*inputs, **attrs)
            return result

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        """Call what FlagGems registers for its backward, on what its forward saves."""
        with as_compiled(), told_of_a_device():
            return PAIRS[op][1](cotangents[0], *inputs, **attrs)


class FlagGemsOfMatrices(FlagGems):
    """The same of matrices alone, of which the backward of layer_norm takes the rows rightly."""

    def capabilities(self) -> Capabilities:
        """Offer the same ops, layer_norm of rank 2."""
        part = {**TAKES["layer_norm"], "ranks": [2]}
        return replace(super().capabilities(), takes={**TAKES, "layer_norm": part})
