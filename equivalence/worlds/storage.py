"""What passes through the format of storage on the way: numbers that are saved, and sums.

The steps of a page are not told to do so; torch's forms are (`equivalence.backends.torch.forms`).
"""

from __future__ import annotations

import math
from fractions import Fraction

from equivalence.worlds.contract import Format
from spec.scalar import A, OpenFunction, Unary

OUTWARD = 1 + 2.0**-40
"""More than the rounding errors of `slack`."""

saved = Unary("saved")
"""Store a number and read it again: what a forward pass leaves to the backward one."""


@saved.register(int, Fraction)
def _as_it_is(x: A) -> A:
    """Leave a constant alone, which no number of the inputs has met."""
    return x


class _Sum(OpenFunction):
    """An open function of a sum, dispatched on its world."""

    def __call__(self, total: A, size: A, count: int, /) -> A:
        """Apply the rule of the total's world."""
        found: A = self.rule_for(type(total))(total, size, count)
        return found


narrowly = _Sum("narrowly")
"""Add up in the format of storage, along any tree: so many terms, whose magnitudes add to size."""


def slack(format: Format, count: int) -> float:
    """Return by how much of its magnitudes a sum of so many terms may be off, along any tree."""
    return math.expm1(max(count - 1, 0) * math.log1p(format.unit)) * OUTWARD
