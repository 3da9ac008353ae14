"""A contract compiled to doubles: how far each step of the declared arithmetic may go astray.

`equivalence.worlds.arithmetic` maps balls; this maps a pair of float64 arrays, a value and a bound,
for many scalars at once. Both read the errors off one record (`equivalence.worlds.steps`).
Every result is in *generic position*: each step rounds, whether or not its exact result happens to
be representable. Only where `settled` is asked for do steps on exact operands add nothing if their
result is a number of the format, as befits integers that no intermediate rounding can touch.

The arrays' own arithmetic errs, too. A value computed in float64 is within `OWN` of itself of the
exact one, a function's within `OWN_FUNCTION`, and that is part of the bound; so the formats judged
are those that are narrower than float64, and float64 itself only where it is settled. A bound is
a sum of products of magnitudes and errs relatively; `OUTWARD` is more than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from equivalence.worlds.contract import FP64, Contract, Format
from equivalence.worlds.steps import RoundingStep, Steps
from equivalence.worlds.storage import slack

Doubles: TypeAlias = npt.NDArray[np.float64]

Bound: TypeAlias = Doubles | None
"""How far every allowed result may lie from the value; None where it is the value itself."""

OWN = 2.0**-52
"""Twice what one rounding to float64 errs, relative to its result."""

OWN_FUNCTION = 2.0**-49
"""What numpy's float64 functions err, relative to their result: eight units in the last place."""

OUTWARD = 1 + 2.0**-44
"""More than the rounding errors of the few operations that make up a bound."""


SPARE = Format("settled", 40, FP64.min_exponent, FP64.max_exponent)
"""What float64 must have to spare, for its result to be the exact one that it seems to be."""


class Rounder:
    """Rounding to a format: a relative error, an absolute one, and the range."""

    def __init__(self, step: RoundingStep) -> None:
        """Take the errors of a rounding as doubles, which have a smallest one."""
        self.step = step
        self.format = step.format
        self.unit = step.relative
        self.least = step.flushed
        self.eta = max(math.ldexp(1.0, step.exponent), math.ulp(0.0)) + step.flushed

    def widened(self, v: Doubles, b: Doubles | float) -> Doubles:
        """Return the bound of a number after rounding; nan where it may leave the range."""
        size = np.abs(v) + b
        bound = (b + self.unit * size + self.eta) * OUTWARD
        return ranged(size + bound, bound, self.format.max_finite)

    def holds(self, v: Doubles) -> npt.NDArray[np.bool_]:
        """Say which numbers are of the format, and stay: what may be flushed does not."""
        mantissa, exponent = np.frexp(v)
        places = np.maximum(exponent - self.format.precision, self.format.least_exponent)
        whole = np.ldexp(v, -places)
        del mantissa
        found: npt.NDArray[np.bool_] = (whole == np.rint(whole)) & (
            np.abs(v) <= self.format.max_finite
        )
        if self.least:
            found &= (np.abs(v) >= self.least) | (v == 0)
        return found

    def settled(self, v: Doubles) -> tuple[Doubles, Doubles]:
        """Round exact numbers once: return what they become, and a bound, nan beyond the range.

        The bound is 0 where one number is right, as `RoundingStep.settled` says; the others stay.
        """
        open_ = self.widened(v, 0.0)
        if not self.step.to_nearest:
            return v, np.where(self.holds(v), 0.0, open_)
        _, exponent = np.frexp(v)
        last = np.maximum(exponent - self.format.precision, self.format.least_exponent)
        with np.errstate(over="ignore"):
            found = np.ldexp(np.rint(np.ldexp(v, -last)), last)
        one = ((np.abs(v) >= self.least) | (v == 0)) & (np.abs(found) <= self.format.max_finite)
        return np.where(one, found, v), np.where(one, 0.0, open_)


def ranged(size: Doubles, bound: Doubles, largest: float) -> Doubles:
    """Return a bound, nan where a magnitude is beyond the largest one or is none."""
    peak = np.max(size, initial=0.0)
    return bound if peak <= largest else np.where(size <= largest, bound, np.nan)


class Widths:
    """The steps of a contract, each as the bound that it leaves."""

    def __init__(self, contract: Contract, settled: bool = False, balanced: bool = False) -> None:
        """Compile a contract.

        settled: steps on exact operands add nothing if their result is a number of the format.
        balanced: sums err by as much as roundings come to that are independent, which suits terms
        whose sums are exact in any order, so that only what is no plain sum errs at all.
        """
        self.contract, self.settled, self.balanced = contract, settled, balanced
        self.steps = steps = Steps.of(contract)
        self.stable = steps.stable
        self.step, *self.later = map(Rounder, steps.plain)
        self.spare = Rounder(steps.plain[0]._replace(format=SPARE))
        self.storage, self.bf16 = Rounder(steps.last), Rounder(steps.to_bf16)
        self.unit, self.eta = self.step.unit, self.step.eta
        for rounder in self.later:
            self.unit, self.eta = self.unit + rounder.unit, self.eta * 2 + rounder.eta
        self.sums = Rounder(steps.sums)
        self.smallest = steps.plain[0].format.min_normal if steps.reads else 0.0
        self.dot = None if steps.factors is None else Rounder(steps.factors)
        self.functions = 0.0

    def rounded(self, v: Doubles, b: Bound) -> Bound:
        """Return the bound of a step whose exact result is v, on operands that are b off.

        v was computed in float64. b of None says that the operands are exact.
        """
        if b is None and self.settled and bool(np.all(self.fits(v))):
            return None
        if b is None:
            b = np.zeros_like(v)
        return self.ended(v, self.step.widened(v, b + OWN * np.abs(v)))

    def ended(self, v: Doubles, b: Doubles) -> Doubles:
        """Return the bound after a step; one that may pass through storage is rounded there too."""
        for rounder in self.later:
            b = rounder.widened(v, b)
        return b

    def fits(self, v: Doubles) -> npt.NDArray[np.bool_]:
        """Say which numbers a step may return unchanged."""
        found = self.step.holds(v) & self.spare.holds(v)
        for rounder in self.later:
            found = found & rounder.holds(v)
        return found

    def read(self, v: Doubles, b: Bound) -> Bound:
        """Return the bound of an operand as read: if it may be subnormal, anything as small."""
        if not self.smallest:
            return b
        off = np.zeros_like(v) if b is None else b
        small = (np.abs(v) - off < self.smallest) & ((v != 0) | (off > 0))
        return np.where(small, off + 2 * self.smallest, off) if small.any() else b

    def divided(self, x: tuple[Doubles, Bound], y: tuple[Doubles, Bound]) -> tuple[Doubles, Bound]:
        """Return the quotient of two pairs."""
        division = self.steps.division
        if division.reciprocal:
            one = np.ones_like(y[0])
            inverse = one / y[0]
            off = self.rounded(inverse, _quotient_bound(inverse, (one, None), y))
            v, b = x[0] * inverse, product_bound(x, (inverse, off))
            return v, self.rounded(v, b)
        v = x[0] / y[0]
        b = _quotient_bound(v, x, y)
        if division.relative:
            size = np.abs(v) if b is None else np.abs(v) + b
            b = (0.0 if b is None else b) + division.relative * size
        return v, self.rounded(v, b)

    def applied(self, name: str, far: Doubles, y: Doubles, moved: Doubles | float) -> Doubles:
        """Return the bound of a function's value y, whose true values are that far moved.

        far is the largest magnitude of the argument.
        """
        error = self.steps.functions[name]
        self.functions = max(self.functions, error.units)
        moved = (moved + OWN_FUNCTION * np.abs(y)) * OUTWARD
        size = np.abs(y) + moved
        wide = error.relative * size + error.absolute + self.step.eta
        if error.slope:
            wide = wide + error.slope * far * size
        bound = (moved + wide) * OUTWARD
        return self.ended(y, ranged(size + bound, bound, self.step.format.max_finite))

    def summed(
        self, v: Doubles, b: Doubles | float, size: Doubles, count: Doubles | int, products: bool
    ) -> Doubles:
        """Return the bound of a sum v of count terms along any tree.

        size is the sum of the terms' magnitudes, at their largest, and b that of their bounds.
        With products, each term is a product that may be rounded before it is added.
        """
        height = np.maximum(count - 1, 0)
        if self.balanced:
            height = np.ceil(np.sqrt(height))
        growth = np.expm1(height * math.log1p(self.sums.unit))
        if products:
            growth = growth + self.steps.product * (1 + growth)
        eta = (self.sums.eta + self.step.eta) * count
        own = OWN * (count + 1) * size
        bound = (b + growth * size + eta + own) * (OUTWARD + OWN * np.max(count, initial=1))
        bound = ranged(size, bound, self.sums.format.max_finite)
        if self.steps.finishes:
            bound = self.ended(v, self.step.widened(v, bound))
        return ranged(np.abs(v) + bound, bound, self.step.format.max_finite)

    def multiplied(
        self,
        v: Doubles,
        b: Doubles | float,
        sizes: tuple[Doubles, Doubles],
        count: Doubles | int,
    ) -> Doubles:
        """Return the bound of a product v of count factors that are rounded, in any order.

        sizes are the products of the magnitudes over 1 and of those below it, and b says how far
        the product of the factors may lie from v. What underflows may be enlarged by what is large.
        """
        large, small = sizes
        growth = np.expm1(count * math.log1p(self.unit))
        size = np.abs(v) + b
        eta = np.where(small > 2 * self.steps.smallest, 0.0, self.eta * (count + 1) * large)
        bound = (b + (growth + OWN * (count + 2)) * size + eta * (1 + growth)) * OUTWARD
        reach = large * (1 + growth) * OUTWARD
        return ranged(reach, bound, self.steps.largest)

    def narrowly(self, b: Doubles | float, size: Doubles, count: int) -> Doubles:
        """Return the bound of a sum along any tree whose steps are rounded to storage, too."""
        format = self.storage.format
        bound = (b + slack(format, count) * size + count * 2.0**format.least_exponent) * OUTWARD
        return ranged(size + bound, bound, format.max_finite)

    def adds_exactly(self, terms: Doubles, size: Doubles) -> bool:
        """Say whether no partial sum can be rounded, in any order: all are of one grid.

        The terms are multiples of 2^-k, and the sum of their magnitudes is at most 2^(p - k).
        """
        if not self.settled or not np.all(np.isfinite(size)):
            return False
        top = float(np.max(size, initial=0.0))
        places = max((_places(terms)), 0)
        return top <= math.ldexp(1.0, min(self.sums.format.precision, 53) - places)

    def kept(self, v: Doubles, b: Bound) -> Bound:
        """Return the bound of a result after the last step, rounding to storage.

        Arrays carry no depths, so the floor of a stable contract is taken for the bound again: by
        as much as the page's own roundings may lose, another program may be off (a heuristic), and
        by what a function errs that it may call in the place of another.
        """
        if b is not None and self.stable:
            b = 2 * b + self.functions * self.steps.unit * np.abs(v)
        return self.passed(v, b)

    def passed(self, v: Doubles, b: Bound) -> Bound:
        """Return the bound of a number after rounding to storage, on the way or last."""
        return _narrowed(self.storage, self.steps.stores, v, b)

    def in_bf16(self, v: Doubles, b: Bound) -> Bound:
        """Return the bound of a number after rounding to bf16, on the way."""
        return _narrowed(self.bf16, self.steps.narrows, v, b)


def _narrowed(to: Rounder, rounds: bool, v: Doubles, b: Bound) -> Bound:
    """Return the bound of a number after rounding; exact numbers of the format stay."""
    if b is None:
        held = to.holds(v)
        return None if bool(np.all(held)) else np.where(held, 0.0, to.widened(v, 0.0))
    return to.widened(v, b) if rounds else b


def _places(terms: Doubles) -> int:
    """Return a number of binary places that all terms have at most, in steps of eight."""
    for places in range(0, 56, 8):
        scaled = np.ldexp(terms, places)
        if np.array_equal(scaled, np.rint(scaled)):
            return places
    return 2000


def product_bound(x: tuple[Doubles, Bound], y: tuple[Doubles, Bound]) -> Bound:
    """Return how far the product of numbers within two bounds lies from that of the values."""
    (a, da), (b, db) = x, y
    if da is None:
        return None if db is None else np.abs(a) * db
    return np.abs(b) * da if db is None else np.abs(a) * db + da * (np.abs(b) + db)


def _quotient_bound(quotient: Doubles, x: tuple[Doubles, Bound], y: tuple[Doubles, Bound]) -> Bound:
    """Return how far a quotient may lie from that of the values; nan where the divisor may be 0."""
    (_, da), (b, db) = x, y
    if db is None:
        exact = np.where(b == 0, np.nan, np.abs(b))
        if da is None:
            return None if not np.isnan(exact).any() else 0 * exact
        return da / exact
    far = np.abs(b) - db
    moved = np.abs(quotient) * db + (0.0 if da is None else da)
    return np.where(far > 0, moved, np.nan) / np.where(far > 0, far, 1.0)


Slope = Callable[[Doubles, Doubles, Doubles], Doubles]
"""How far f(w) may lie from y = f(x), for |w - x| <= b, as a function of x, y and b."""


def _of_log(x: Doubles, y: Doubles, b: Doubles) -> Doubles:
    inside = b < x
    return np.where(inside, -np.log1p(-np.where(inside, b / np.where(inside, x, 1.0), 0)), np.nan)


def _of_sqrt(x: Doubles, y: Doubles, b: Doubles) -> Doubles:
    below = np.sqrt(np.maximum(x - b, 0.0)) + y
    return np.where(x >= b, b / np.where(below > 0, below, 1.0), np.nan)


def _of_erf(x: Doubles, y: Doubles, b: Doubles) -> Doubles:
    nearest = np.maximum(np.abs(x) - b, 0.0)
    slope: Doubles = np.exp(-(nearest**2)) * (2 / math.sqrt(math.pi))
    return b * slope


MOVED: dict[str, Slope] = {
    "exp": lambda x, y, b: y * np.expm1(b),
    "log": _of_log,
    "sqrt": _of_sqrt,
    "tanh": lambda x, y, b: b / np.cosh(np.minimum(np.maximum(np.abs(x) - b, 0.0), 700.0)) ** 2,
    "cos": lambda x, y, b: b,
    "sin": lambda x, y, b: b,
    "expm1": lambda x, y, b: (y + 1) * np.expm1(b),
    "log1p": lambda x, y, b: _of_log(1 + x, y, b),
    "erf": _of_erf,
}
"""How far the value of each elementary function moves with its argument."""
