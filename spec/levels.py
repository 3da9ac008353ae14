"""Chapter 17. Levels: duals whose parts are duals again, for derivatives of derivatives.

>>> from spec.tensor import tensor
>>> nested = Dual(Dual(3.0, 1.0), Dual(1.0, 0.0))
>>> depth(nested), depth(2.0), world_of([tensor([2, 3]), tensor([0.5])])
(2, 0, 0.5)
>>> still(tensor([2.0]), kept=0, levels=1)
Tensor([Dual(2.0, 0.0)])
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from spec.dual import Dual
from spec.op import AnyTensor
from spec.scalar import CONSTANTS, zero_like


def depth(a: Any) -> int:
    """Count how deep the duals of a scalar are nested."""
    return 1 + depth(a.value) if isinstance(a, Dual) else 0


def world_of(tensors: Sequence[AnyTensor]) -> Any:
    """Return a number of the world that tensors are in: one whose duals are nested deepest."""
    entries = (a for x in tensors for a in x.data if type(a) not in CONSTANTS)
    return max(entries, key=depth, default=Fraction(0))


def still(x: AnyTensor, kept: int, levels: int) -> AnyTensor:
    """Take a tensor into a world of so many levels; beyond those kept, it does not move."""

    def entered(a: Any) -> Any:
        while depth(a) > kept:
            a = a.value
        while type(a) not in CONSTANTS and depth(a) < levels:
            a = Dual(a, zero_like(a))
        return a

    return x.map(entered)
