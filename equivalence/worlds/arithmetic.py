"""A contract compiled to balls: what each step of the declared arithmetic may return.

Every method takes the ball of an exact or already uncertain operation and returns the ball of all
results that the contract allows for it. How large the errors are is read off the record of the
contract's steps (`equivalence.worlds.steps`).
Rounding y to a format of unit u returns a number within u |y| + eta of y, where eta is half the
smallest subnormal number, and the smallest normal number more where the contract flushes; so a
step is one ball multiplication by 1 +- u and one addition of +- eta.
A ball that leaves the format's range, or that its operation made undefined, becomes `NAN`: what
depends on it is unconstrained.

A sum of n terms along any tree errs by at most ((1 + u)^(n - 1) - 1) times the sum of magnitudes,
which is never more than gamma_(n-1) of it and has no pole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flint

from equivalence.worlds.balls import NAN, Arb
from equivalence.worlds.contract import Contract
from equivalence.worlds.grid import ONE, Grid, Range, power_of_two, spread
from equivalence.worlds.steps import RoundingStep, Steps


class Rounder:
    """Rounding to one format: the ball of results for a ball of arguments."""

    __slots__ = ("eta", "scale")

    def __init__(self, step: RoundingStep) -> None:
        """Prepare the ball from 1 - below to 1 + above, and eta."""
        middle = 1 + (step.above - step.below) / 2
        self.scale: Arb = middle + spread((step.above + step.below) / 2)
        self.eta: Arb = power_of_two(step.exponent) + step.flushed


class Arithmetic:
    """The steps of a contract, each as a map of balls."""

    __slots__ = (
        "_dot",
        "_eta",
        "_finish",
        "_floors",
        "_functions",
        "_grid",
        "_growth",
        "_quotient",
        "_range",
        "_scale",
        "_store",
        "_store_bf16",
        "_sum_eta",
        "_sum_grid",
        "_sum_range",
        "constants",
        "contract",
        "reads",
        "stable",
        "steps",
    )

    def __init__(self, contract: Contract, steps: Steps | None = None) -> None:
        """Compile the steps of a contract, or others that are given in their place."""
        self.contract = contract
        self.steps = steps = Steps.of(contract) if steps is None else steps
        self.constants: dict[Any, Any] = {}
        self.reads, self.stable = steps.reads, steps.stable
        self._floors: dict[int, tuple[Arb, Arb]] = {}
        step, *store = map(Rounder, steps.plain)
        self._grid = Grid(steps.plain)
        self._range = Range(steps.largest)
        self._scale: Arb = step.scale
        eta = step.eta
        for rounder in store:
            self._scale, eta = self._scale * rounder.scale, eta * 2 + rounder.eta
        self._eta: Arb = spread(eta)
        self._quotient: Arb = 1 + spread(steps.division.relative)
        self._compile_sums(step)
        self._compile_functions(step, store)
        self._store = _Store(steps.last, steps.stores)
        self._store_bf16 = _Store(steps.to_bf16, steps.narrows)
        self._dot = None if steps.factors is None else _DotInput(steps.factors)

    def _compile_sums(self, step: Rounder) -> None:
        sums = self.steps.sums
        self._sum_grid = Grid([sums])
        self._sum_range = Range(sums.format.max_finite)
        self._sum_eta: Arb = spread(Rounder(sums).eta + step.eta)
        self._growth: dict[tuple[int, bool], Arb] = {}
        self._finish: Arb | None = self._scale if self.steps.finishes else None

    def _compile_functions(self, step: Rounder, stores: Sequence[Rounder]) -> None:
        self._functions: dict[str, tuple[Arb, Arb | None, Arb, bool]] = {}
        for name, error in self.steps.functions.items():
            gain = 1 + spread(error.relative)
            slope = spread(error.slope) if error.slope else None
            offset = spread(step.eta + error.absolute)
            for store in stores:
                gain, offset = gain * store.scale, offset * store.scale + spread(store.eta)
                slope = None if slope is None else slope * store.scale
            self._functions[name] = (gain, slope, offset, error.exact)

    def holds(self, x: Arb) -> bool:
        """Whether a ball is a number that a step may return unchanged."""
        return self._grid.holds(x)

    def ranged(self, w: Arb) -> Arb:
        """Return a ball as it is if it stays in the format's range, else NAN."""
        return w if self._range.contains(w) else NAN

    def rounded(self, w: Arb) -> Arb:
        """Return what rounding any number of a ball may give."""
        w = w * self._scale + self._eta
        return w if self._range.contains(w) else NAN

    def settled(self, v: Arb) -> Arb:
        """Return what a correctly rounded step on exact operands may give: v itself if it can."""
        return v if self._grid.holds(v) else self.rounded(v)

    def read(self, w: Arb) -> Arb:
        """Return what an operand may be read as: anything as small, where it may be subnormal."""
        if w.is_zero() or w.abs_lower() >= self._grid.smallest:
            return w
        return w.union(spread(self._grid.smallest))

    def scaled(self, factor: Arb, w: Arb) -> Arb:
        """Return what a power of two times w may give: it is exact up to underflow."""
        return self.ranged(factor * w + self._eta)

    def divides_exactly(self, y: Arb) -> bool:
        """Whether division by an exact number is a move: by 1, or rounded by a power of two."""
        division = self.steps.division
        return bool(y.bits() == 1 and (division.correct or (division.reciprocal and y == ONE)))

    def divided(self, x: Arb, y: Arb, quotient: Arb | None) -> Arb:
        """Return what x / y may give; quotient is the exact one if both operands are exact."""
        division = self.steps.division
        if division.reciprocal:
            inverse = ONE / y
            inverse = self.settled(inverse) if y.is_exact() else self.rounded(inverse)
            if quotient is not None and inverse.is_exact():
                return self.settled(quotient)
            return self.rounded(x * inverse)
        if division.relative:
            return self.rounded(x / y * self._quotient)
        if quotient is not None:
            return self.settled(quotient)
        return self.rounded(x / y)

    def applied_exactly(self, name: str, y: Arb) -> bool:
        """Whether a function returns its true value y, of an exact argument, as it is."""
        return bool(self._functions[name][3] and self._grid.holds(y))

    def applied(self, name: str, y: Arb, x: Arb) -> Arb:
        """Return what the function may give whose true values on the ball x are the ball y."""
        gain, slope, offset, _ = self._functions[name]
        if slope is not None:
            gain = gain + slope * x
        w = y * gain + offset
        return w if self._range.contains(w) else NAN

    def summed(self, size: Arb, total: Arb, count: int, products: bool) -> Arb:
        """Return what a sum of terms, count of them not 0, may give along any tree.

        size is the sum of their magnitudes; with products, each term is a product that may be
        rounded before it is added.
        """
        if not self._sum_range.contains(size):
            return NAN
        w = total + self._grown(count, products) * size + self._sum_eta * count
        if self._finish is not None:
            w = w * self._finish + self._eta
        return w if self._range.contains(w) else NAN

    def multiplied(self, w: Arb, large: Arb, small: Arb, roundings: int) -> Arb:
        """Return what a product of factors may give, in whatever order they meet.

        w is their product before any rounding; large is that of the magnitudes over 1, and small
        that of those below it, between which all that is formed on the way lies. What underflows
        there may still be enlarged by all that is large.
        """
        grown = self._scale**roundings
        if not self._range.contains(large * grown):
            return NAN
        w = w * grown
        if not small * grown >= self._grid.smallest:
            w = w + self._eta * (roundings + 1) * large * grown
        return w if self._range.contains(w) else NAN

    def multiplies_exactly(self, v: Arb, large: Arb, small: Arb) -> bool:
        """Whether no product of some of exact factors rounds, of all of which v is the product.

        The bits of each are no more than those of v, and their sizes lie between small and large.
        """
        return self._grid.holds(v) and bool(
            large <= self._grid.largest and small >= self._grid.smallest
        )

    @property
    def growth(self) -> Arb:
        """Return by how much a rounding may enlarge a number."""
        return self._scale.abs_upper()

    def carried(
        self, w: Arb, sizes: tuple[Arb, Arb], reach: Arb, small: Arb, counts: tuple[int, int]
    ) -> Arb:
        """Return what a sum of products that are carried on may give, in whatever order.

        w is the sum before any rounding, sizes are those of magnitudes, without and with the
        roundings of products, reach is more than all that is formed on the way, and small less than
        any product of factors with a term; counts are those of steps, and of terms.
        """
        steps, terms = counts
        grown = self._scale ** (2 * steps)
        if not self._range.contains(reach * grown):
            return NAN
        adds = self.growth ** max(terms - 1, 0)
        off = (sizes[1] * adds - sizes[0]).abs_upper()
        if not small * grown >= self._grid.smallest:
            off = off + (self._eta * (2 * steps + 1) * reach.max(ONE) * grown).abs_upper()
        w = w + spread(off)
        return w if self._range.contains(w) else NAN

    def carries_exactly(self, reach: Arb, quantum: Arb) -> bool:
        """Whether all multiples of a quantum up to a reach are numbers of the format."""
        return bool(
            reach <= quantum * 2**self._grid.precision
            and reach <= self._grid.largest
            and quantum >= self._grid.smallest
        )

    def sums_exactly(
        self, terms: Sequence[Arb], size: Arb, total: Arb, count: int, products: bool
    ) -> bool:
        """Whether no step can round: one addition of exact terms, or partial sums on a grid."""
        if count == 2 and not products and self._sum_grid.holds(total):
            return True
        return self._sum_grid.sums_exactly(terms, size)

    def may_underflow(self, v: Arb) -> bool:
        """Whether a number lies so near 0, and is not 0, that factors of it may be subnormal."""
        return not v.is_zero() and bool(abs(v) * self.steps.unit < self._grid.smallest)

    def is_small(self, v: Arb) -> bool:
        """Whether a number lies so near 0 that a subnormal factor of it, made larger, may count."""
        unit = self.steps.unit
        return bool(abs(v) * unit * unit < self._grid.smallest)

    def vanishes(self, v: Arb) -> bool:
        """Whether a number may be rounded to 0, or flushed to it."""
        smallest = 1.0 if self._grid.flushed else 2 * self.steps.unit
        return not abs(v) >= self._grid.smallest * smallest

    def floor(self, depth: int, magnitude: Arb, gain: Arb = ONE) -> Arb:
        """Return what a program as stable as one of so many roundings may lose, around 0.

        It is d u (1 + u)^d times the largest term of the last sum, with u of computation, and d
        times what underflow loses, scaled by the factors that may come after it.
        """
        found = self._floors.get(depth)
        if found is None:
            unit = self.steps.unit
            found = (spread(depth * unit * (ONE + unit) ** depth), self._eta * depth)
            self._floors[depth] = found
        slope, offset = found
        return slope * magnitude + offset * gain

    def _grown(self, count: int, products: bool) -> Arb:
        growth = self._growth.get((count, products))
        if growth is None:
            factor = (ONE + self.steps.sums.relative) ** max(count - 1, 0)
            if products:
                factor = factor * (ONE + self.steps.product)
            growth = spread(factor - 1)
            self._growth[count, products] = growth
        return growth

    @property
    def dot_reader(self) -> Callable[[Arb], Arb] | None:
        """The map from a factor of a dot product to what it may be rounded to; None: nothing."""
        return None if self._dot is None else self._dot.read

    def stored(self, w: Arb, exact: bool) -> Arb:
        """Return what storing a number of the ball may give: the last step.

        An exact number is rounded once. Then one result is right, and the ball is that number.
        """
        return self._store.stored(w, exact)

    def in_bf16(self, w: Arb, exact: bool) -> Arb:
        """Return what rounding a number of the ball to bf16 on the way may give."""
        return self._store_bf16.stored(w, exact)


class _Store:
    """Rounding to a narrower format: that of storage, or that of a step on the way."""

    __slots__ = ("_eta", "_grid", "_last", "_range", "_scale", "_stores")

    def __init__(self, last: RoundingStep, stores: bool) -> None:
        rounder = Rounder(last)
        self._last = last
        self._stores = stores
        self._grid = Grid([last])
        self._scale: Arb = rounder.scale
        self._eta: Arb = spread(rounder.eta)
        self._range = Range(last.format.max_finite)

    def stored(self, w: Arb, exact: bool) -> Arb:
        if self._grid.holds(w) if exact else not self._stores:
            return w
        once = self._last.settled(float(w)) if exact and w == float(w) else None
        if once is None:
            w = w * self._scale + self._eta
        else:
            w = flint.arb(once[0]) * power_of_two(once[1])
        return w if self._range.contains(w) else NAN


class _DotInput:
    """Rounding the factors of a dot product to a narrower format."""

    __slots__ = ("_eta", "_grid", "_range", "_scale")

    def __init__(self, factors: RoundingStep) -> None:
        rounder = Rounder(factors)
        self._grid = Grid([factors])
        self._scale: Arb = rounder.scale
        self._eta: Arb = spread(rounder.eta)
        # Who truncates never leaves the range.
        self._range = Range(factors.format.max_finite) if factors.above else None

    def read(self, w: Arb) -> Arb:
        """Return what a factor is read as; nan where it may leave the range."""
        if self._grid.holds(w):
            return w
        w = w * self._scale + self._eta
        return w if self._range is None or self._range.contains(w) else NAN
