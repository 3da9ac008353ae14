"""Which numbers a format has: its grid and its range, asked of balls."""

from __future__ import annotations

import math
from collections.abc import Sequence

import flint

from equivalence.worlds.balls import Arb
from equivalence.worlds.steps import RoundingStep

ZERO: Arb = flint.arb(0)
ONE: Arb = flint.arb(1)
AROUND_ZERO: Arb = flint.arb(0, 1)


def spread(radius: Arb | float) -> Arb:
    """Return the ball around 0 of this radius."""
    return AROUND_ZERO * radius


def power_of_two(exponent: int) -> Arb:
    """Return 2^exponent exactly, also where a float would underflow."""
    return ONE * flint.arb(2) ** exponent if exponent >= 0 else ONE / flint.arb(2) ** -exponent


class Range:
    """The numbers that are no larger than a format's largest one."""

    __slots__ = ("_inner", "_lowest", "_top")

    def __init__(self, largest: float) -> None:
        """Keep the ends exactly, and a ball inside of them by which most are recognized at once."""
        self._top = flint.arb(largest)
        self._lowest = flint.arb(-largest)
        # A radius has 30 bits, rounded up: that of the largest float64 would reach beyond it.
        self._inner: Arb = spread(largest * (1 - 2.0**-20))

    def contains(self, w: Arb) -> bool:
        """Whether all numbers of a ball are within."""
        inside: bool = self._inner.contains(w) or (w <= self._top and w >= self._lowest)
        return inside


class Grid:
    """The numbers that one rounding or several leave as they are: which reals are among them."""

    __slots__ = ("flushed", "largest", "least", "precision", "smallest")

    def __init__(self, roundings: Sequence[RoundingStep]) -> None:
        """Intersect formats; where results may be flushed, subnormal numbers are not among them."""
        formats = [rounding.format for rounding in roundings]
        self.precision = min(f.precision for f in formats)
        self.least = max(f.least_exponent for f in formats)
        self.smallest = max(f.min_normal for f in formats)
        self.largest = min(f.max_finite for f in formats)
        self.flushed = any(rounding.flushed for rounding in roundings)

    def holds(self, x: Arb) -> bool:
        """Whether a ball is exact and its number is on the grid."""
        if x.bits() > self.precision:
            return False
        near = float(x)
        return bool(x == near) and self._has(near)

    def _has(self, x: float) -> bool:
        size = abs(x)
        if size >= self.smallest:
            return size <= self.largest
        return size == 0.0 or (not self.flushed and math.ldexp(x, -self.least).is_integer())

    def sums_exactly(self, terms: Sequence[Arb], size: Arb) -> bool:
        """Whether every partial sum of exact terms, in any order, is on the grid.

        It is if all terms are multiples of some 2^q and size, the sum of their magnitudes, is at
        most 2^(q + precision).
        """
        top = float(size)
        if not (size.is_exact() and top <= self.largest):
            return False
        mantissa, exponent = math.frexp(top)
        if mantissa == 0.5 and size == top:
            exponent -= 1
        lowest = math.frexp(self.smallest)[1] - 1 if self.flushed else self.least
        step = max(exponent - self.precision, lowest)
        scale = power_of_two(-step)
        return all((term * scale).is_integer() for term in terms)
