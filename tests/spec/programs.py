"""Random programs for the reference's own tests: exact leaves, and an interpreter of no tape."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from equivalence.cases.probes import NUMBERS, filled
from equivalence.sessions.texts import SQUARE
from spec.op import AnyTensor
from spec.ops import OPS
from spec.protocol import Ops
from spec.rng import Draws
from spec.several import unpacked

SQUARES = filled(SQUARE, NUMBERS)


class AtOnce(Draws, Ops[AnyTensor]):
    """An interpreter that keeps nothing: its refs are the values themselves."""

    def __init__(self) -> None:
        """Draw exact random numbers."""
        self.like = Fraction(0)

    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Compute the value of an op, or its values."""
        op, whole = OPS[name], self._with_counter(OPS[name], attributes)
        result: AnyTensor = op.value(*inputs, **whole)
        self._count_call(op)
        if op.results is None:
            return result
        types = op.types_at(*(tuple(x.shape) for x in inputs))
        return tuple(unpacked(result, op.results(*types, **whole)).values())
