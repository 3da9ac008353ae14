"""Storage, the last step of a number, and the bounds for other orders of the number's steps.

A number keeps its computation history, which is called its past: the steps that made it. Another
program may take the same steps in another order, and the past bounds what that program may give.
A product of several factors is also one step, and its factors may meet in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import Arb
from equivalence.worlds.grid import ONE, ZERO, power_of_two, spread
from equivalence.worlds.number import (
    GENERIC,
    Bounded,
    always_zero,
    constant,
    meet,
    opened,
    read,
)
from equivalence.worlds.stable.gains import factors_of, gain
from equivalence.worlds.storage import narrowly, saved, slack
from spec import scalar

SEVERAL = 3
"""How many terms a sum has that is no sum of two."""


def stored(x: Bounded) -> Bounded:
    """Round to the storage format: the last step of every result.

    `strict` keeps the ball of the page's own steps. w holds the ball of the contract's freedom.
    """
    arithmetic, depth = x.arithmetic, x.depth
    if not stays(x, arithmetic.steps.plain[0].format.max_finite):
        return opened(x.v, arithmetic)
    page = arithmetic.stored(x.ball, x.exact)
    w = page
    if arithmetic.stable and depth >= GENERIC:
        floor = arithmetic.floor(depth, magnitude(x), _gain_near_zero(x))
        w = arithmetic.stored(x.ball.union(x.v + floor), False)
    elif arithmetic.stable and _reordered(x) and arithmetic.may_underflow(x.v):
        # The page scales exactly. In another order, a number in between may be subnormal.
        w = arithmetic.stored(x.ball + arithmetic.floor(GENERIC, ZERO, _gain_near_zero(x)), False)
    return Bounded(x.v, w, arithmetic, page, GENERIC, x.last)


@saved.register(Bounded)
def _saved(x: Bounded) -> Bounded:
    return around(stored(x), x.v)


@scalar.in_bf16.register(Bounded)
def _in_bf16(x: Bounded) -> Bounded:
    w = x.arithmetic.in_bf16(x.ball, x.exact)
    if w is x.ball:
        return x
    return around(Bounded(x.v, w, x.arithmetic, w, max(x.depth + 1, GENERIC), x.last), x.v)


def around(x: Bounded, v: Arb) -> Bounded:
    """Let the ball of what was stored on the way reach to the exact value.

    A page may choose by such a number, and has to choose as the exact one would. One that is exact
    and fits no storage becomes one other, which may lie beyond a kink, as 0 does.
    """
    if x.unconstrained or x.ball.contains(v):
        return x
    return Bounded(x.v, x.w.union(v), x.arithmetic, x.strict.union(v), GENERIC, x.last)


def _reordered(x: Bounded) -> bool:
    """Say whether another order of steps may round a number that is exact in this order."""
    return bool(x.depth) or (type(x.made) is tuple and len(factors_of(x)) > 2)


@narrowly.register(Bounded)
def _narrowly(total: Bounded, size: Bounded, count: int) -> Bounded:
    format = total.arithmetic.steps.last.format
    reach: Arb = size.ball.abs_upper()
    off = slack(format, count) * reach + count * 2.0**format.least_exponent
    if not reach + off <= format.max_finite:
        return opened(total.v, total.arithmetic)
    return Bounded(total.v, total.ball + spread(off), total.arithmetic)


def either(x: Bounded, y: Bounded) -> Bounded:
    """Allow the results of two programs of one page. x is the result of the page itself."""
    if not x.v.overlaps(y.v):
        raise ValueError(f"a form is another program of its page: it gives {y}, the page {x}")
    return hull(x, y)


def hull(x: Bounded, y: Bounded) -> Bounded:
    """Allow the results of both numbers. The exact value is that of x."""
    within = y.exact and not y.unconstrained and x.v.overlaps(y.v)
    within = within or bool(x.w == y.w)  # one number, which the union of balls would widen
    return Bounded(x.v, x.w if within else x.w.union(y.w), x.arithmetic, x.strict)


def magnitude(of: Bounded) -> Arb:
    """Return the largest term of the last sum, scaled by the factors that came after it.

    `last` holds the terms of a sum, or the two numbers of a product or quotient. A quotient has a
    third item. `last` is None if |v| is the largest term.

    All entries of a row ask the sum that divides them. So the sum keeps its largest term in place
    of all, three times: `always_zero` reads two terms as a sum of two.
    """
    last = of.last
    if last is None:
        return abs(of.v)
    if type(last) is tuple:
        x, y, *inverted = last
        one, two = magnitude(x), magnitude(y)
        if inverted:
            return one.max(two * abs(x.v / y.v)) / abs(y.v)
        return (one * abs(y.v)).max(two * abs(x.v))
    largest = ZERO
    for term in last:
        largest = largest.max(abs(term))
    if len(last) > SEVERAL:
        of.last = [largest] * SEVERAL
    return largest


def _gain_near_zero(x: Bounded) -> Arb:
    """Return the gain of a number so near 0 that losses by underflow may count, and else 1."""
    return gain(x) if x.arithmetic.is_small(x.v) else ONE


def stays(x: Bounded, largest: float) -> bool:
    """Say whether the products of a number's factors stay within a limit, in any order.

    Two factors have one order only. A contract that is not stable allows the page's order only.
    """
    if not x.arithmetic.stable or type(x.made) is not tuple:
        return True
    factors = factors_of(x)
    if len(factors) < 3:
        return True
    reach = 1.0
    for factor in factors:
        reach *= max(1.0, float(factor.abs_upper()))
    return reach <= largest


def never_negative(x: Bounded) -> bool:
    """Say whether no program gives a number below 0.

    Squares have this property, and so have products and sums of numbers that have it.
    """
    left: list[Any] = [x]
    while left:
        of = left.pop()
        if of.w.is_finite() and of.w >= 0:
            continue
        if of.made is None:
            return False
        one, two, *other = of.made
        if type(of.made) is list and other:
            return False
        if one is not two or type(of.made) is list:
            left.extend((one, two))
    return True


@scalar.products.register(Bounded)
def _products(terms: Sequence[Any]) -> list[Bounded]:
    """Return the products of the first 1, 2, 3, ... factors, which may meet in any order."""
    one = next(term for term in terms if type(term) is Bounded)
    row = [meet(one, term) for term in terms]
    found = [row[0]]
    product = _Product(one.arithmetic)
    product.take(row[0])
    for factor in row[1:]:
        product.take(factor)
        found.append(product.result((found[-1], factor) if len(found) == 1 else None))
    return found


class _Product:
    """The running bounds of a product that takes its factors one by one."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        """Start with 1."""
        self.arithmetic = arithmetic
        self.v = self.w = self.large = self.small = ONE
        self.zero = False
        self.depth = self.rounded = 0
        self.largest: Arb | None = None

    def take(self, factor: Bounded) -> None:
        """Multiply by a factor. A power of two rounds nothing."""
        x = read(factor) if self.arithmetic.reads else factor
        if x.last is not None or self.largest is not None:
            own = abs(self.v) if self.largest is None else self.largest
            self.largest = (own * abs(x.v)).max(abs(self.v) * magnitude(x))
        if always_zero(x):
            self.zero = True
            return
        self.v, self.w = self.v * x.v, self.w * x.w
        self.large = self.large * abs(x.w).max(ONE)
        self.small = self.small * abs(x.w).min(ONE)
        self.depth = max(self.depth, x.depth)
        if x.depth or x.v.bits() != 1:
            self.rounded += 1

    def _sized(self, size: Arb) -> Bounded:
        """Return a factor with a known size and an unknown sign."""
        return Bounded(size, spread(size.abs_upper()), self.arithmetic)

    def result(self, two: tuple[Bounded, Bounded] | None) -> Bounded:
        """Return the product.

        If a factor is 0, the product is 0 in spite of an underflow, but not of an overflow.
        A product of more than two factors remembers the product of its large factors, and that of
        its small ones.
        """
        arithmetic, depth = self.arithmetic, self.depth
        made: Any = two
        if two is None and arithmetic.stable:
            some, rest = self._sized(self.small), self._sized(self.large)
            rest.made = self._sized(ONE), self._sized(self.large)
            made = some, rest
        roundings = max(self.rounded - 1, 0)
        last = None if self.largest is None else [self.largest]
        w = arithmetic.multiplied(self.w, self.large, self.small, roundings)
        if self.zero:
            found = constant(arithmetic, 0)
            return found if w.is_finite() else opened(ZERO, arithmetic)
        if not depth and arithmetic.multiplies_exactly(self.v, self.large, self.small):
            if not roundings:
                return Bounded(self.v, self.v, arithmetic, self.v, 0, last, None, made)
            return Bounded(self.v, w, arithmetic, self.v, 1, last, None, made)
        depth += max(roundings, 1)
        strict = w if depth < GENERIC else None
        return Bounded(self.v, w, arithmetic, strict, depth, last, None, made)


@scalar.recurrences.register(Bounded)
def _recurrences(terms: Sequence[Any], factors: Sequence[Any]) -> list[Bounded]:
    """Return the values of a recurrence. Its factors and terms may meet in any order."""
    one = next(x for x in (*terms, *factors) if type(x) is Bounded)
    recurrence = _Recurrence(one.arithmetic, meet(one, terms[0]))
    found = [recurrence.first]
    for term, factor in zip(terms[1:], factors, strict=True):
        recurrence.take(meet(one, term), meet(one, factor))
        found.append(recurrence.result())
    return found


class _Recurrence:
    """The running bounds of a recurrence r f + t, which takes a factor f and a term t at each step.

    v and w are the results without any rounding. `sizes` is the sum of magnitudes, and `rounded`
    is this sum with each rounding of a product. `count` is the number of terms that have met, and
    `least` the smallest of them.
    """

    def __init__(self, arithmetic: Arithmetic, first: Bounded) -> None:
        """Start with a term."""
        self.arithmetic = arithmetic
        self.first = read(first) if arithmetic.reads else first
        self.alone: Bounded | None = self.first
        self.v, self.w = self.first.v, self.first.w
        self.sizes = self.rounded = self.sum = self.largest = abs(self.w)
        self.factors = _Product(arithmetic)
        self.depth, self.steps, self.count = self.first.depth, 0, int(not always_zero(first))
        self.lowest, self.least = _lowest(self.first), ONE
        self._meets(self.first)
        self.exact = not self.first.depth

    def take(self, term: Bounded, factor: Bounded) -> None:
        """Multiply by a factor, and add a term. If the product is exactly 0, the term is left."""
        arithmetic = self.arithmetic
        if arithmetic.reads:
            term, factor = read(term), read(factor)
        self.steps += 1
        self.sum = self.sum + abs(term.w)
        self._meets(term)
        self.depth = max(self.depth, term.depth, factor.depth)
        self.exact = self.exact and not (term.depth or factor.depth)
        self.lowest = min(self.lowest, _lowest(term)) + min(_lowest(factor), 0)
        if not always_zero(factor):
            self.factors.take(factor)
        if always_zero(factor) or not self.count:
            self.alone, self.count = term, int(not always_zero(term))
            self.v, self.w = term.v, term.w
            self.sizes = self.rounded = self.largest = abs(term.w)
            return
        size, grown = abs(factor.w), abs(factor.w) * arithmetic.growth
        self.v, self.w = self.v * factor.v + term.v, self.w * factor.w + term.w
        self.sizes = self.sizes * size + abs(term.w)
        self.rounded = self.rounded * grown + abs(term.w)
        self.largest = (self.largest * size).max(abs(term.w))
        self.count += int(not always_zero(term))
        self.alone = None

    def _meets(self, term: Bounded) -> None:
        """Remember the smallest of the terms, since its product with factors may underflow."""
        if not always_zero(term):
            self.least = self.least.min(abs(term.w))

    def result(self) -> Bounded:
        """Return the bounds after the steps so far."""
        arithmetic, product = self.arithmetic, self.factors
        reach = product.large * self.sum
        ends = arithmetic.carried(
            self.w,
            (self.sizes, self.rounded),
            reach,
            product.small * self.least,
            (self.steps, self.count),
        )
        if self.alone is not None:
            return self.alone if ends.is_finite() else opened(self.alone.v, arithmetic)
        last = [self.largest]
        quantum = power_of_two(self.lowest) if self.exact else ZERO
        if self.exact and arithmetic.carries_exactly(reach, quantum):
            return Bounded(self.v, ends, arithmetic, self.v, 1, last)
        return Bounded(self.v, ends, arithmetic, None, self.depth + 2 * self.steps, last)


def _lowest(x: Bounded) -> int:
    """Return the exponent of the last bit of an exact number."""
    if x.depth or x.v.is_zero():
        return 0
    return int(x.v.mid().man_exp()[1])
