"""One number of a contract's world: an exact value, the balls of its results, and its past.

What they mean, and the rules of everything but sums and products, stand in
`equivalence.worlds.bounded`, by which the world is entered.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import flint

from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import NAN, Arb, arb
from equivalence.worlds.grid import ONE, ZERO, spread
from spec.dual import Dual

GENERIC = 2
"""From this depth on every step counts as rounded."""


class Terms(NamedTuple):
    """What a sum is made of; values are its exact terms, None where they are not exact."""

    number: int
    size: Arb
    total: Arb
    products: bool
    values: list[Arb] | None


class Bounded:
    """An exact value, and the ball of all results that a contract allows for it.

    v       a thin ball around the exact value
    w       what the arithmetic may give where every step rounds; v itself at depth 0
    strict  what it may give at depth 0 and 1, v itself where only the exact value; of a stored
            number, what the page's own steps may give, and w counts; None elsewhere
    depth   the number of roundings on the way
    last    what the largest term of the last sum is read off (`magnitude`)
    made    the operands of a product or, with a third item, of a quotient; in a list those of a sum
            of two or, with a third item, of a difference; None elsewhere (`gain`, `stays`)
    terms   of a sum, what it is made of
    """

    __slots__ = ("arithmetic", "depth", "last", "made", "strict", "terms", "v", "w")

    def __init__(
        self,
        v: Arb,
        w: Arb,
        arithmetic: Arithmetic,
        strict: Arb = None,
        depth: int = GENERIC,
        last: Any = None,
        terms: Terms | None = None,
        made: Any = None,
    ) -> None:
        """Hold the ball of the value and of results; without more, a result of many steps."""
        self.v = v
        self.w = w
        self.arithmetic = arithmetic
        self.strict = strict
        self.depth = depth
        self.last = last
        self.terms = terms
        self.made = made

    @property
    def ball(self) -> Arb:
        """What the contract allows, v itself where only the exact value."""
        return self.w if self.depth >= GENERIC else self.strict

    @property
    def exact(self) -> bool:
        """Whether the contract allows the exact value only."""
        return self.ball is self.v

    @property
    def unconstrained(self) -> bool:
        """Whether the contract says nothing about this scalar."""
        w = self.w if self.depth >= GENERIC else self.strict
        return not w.is_finite()

    def under(self, arithmetic: Arithmetic) -> Bounded:
        """Return the same number under another contract."""
        return Bounded(self.v, self.w, arithmetic, self.strict, self.depth, self.last, self.terms)

    def __add__(self, other: Any) -> Bounded:
        """Add, and round once."""
        return _combined(operator.add, self, meet(self, other))

    def __sub__(self, other: Any) -> Bounded:
        """Subtract, and round once."""
        return _combined(operator.sub, self, meet(self, other))

    def __rsub__(self, other: Any) -> Bounded:
        """Subtract from an exact constant, and round once."""
        return _combined(operator.sub, meet(self, other), self)

    def __mul__(self, other: Any) -> Bounded:
        """Multiply, and round once."""
        return _multiplied(self, meet(self, other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Bounded:
        """Change the sign, exactly."""
        return moved(self, -self.v, operator.neg, self.last, self.made)

    def __repr__(self) -> str:
        """Show the value, and the budget or why there is none."""
        if self.exact:
            return f"Bounded({self.v.str(15)}, exact)"
        if self.unconstrained:
            return f"Bounded({self.v.str(15)}, unconstrained)"
        return f"Bounded({self.v.str(15)}, within {float((self.ball - self.v).abs_upper()):.3g})"


def exact(arithmetic: Arithmetic, *values: float) -> list[Bounded]:
    """Take floats as the exact numbers that they are; they must be finite."""
    return [Bounded(v, v, arithmetic, v, 0) for v in map(flint.arb, values)]


def within(v: Arb, w: Arb, arithmetic: Arithmetic) -> Bounded:
    """Take a value and the ball of its results from elsewhere; one object for both is exact."""
    return Bounded(v, w, arithmetic, w, 0 if w is v else 1)


def constant(arithmetic: Arithmetic, value: int | Fraction) -> Bounded:
    """Return an exact constant as a kernel holds it: rounded once if the format lacks it."""
    found = arithmetic.constants.get(value)
    if found is None:
        v = arb(value)
        w = arithmetic.settled(v)
        found = Bounded(v, w, arithmetic, w, 0 if w is v else 1)
        arithmetic.constants[value] = found
    result: Bounded = found
    return result


def unsettled(x: Bounded) -> Bounded:
    """Take an exact number for the result of steps, so that no step on it is exact; 0 stays 0.

    An update of a stable contract starts from such numbers: it may take (c g) g where the page
    takes c (g g), and p - r p for (1 - r) p, of which only one may be exact.
    """
    if x.depth or x.v.is_zero():
        return x
    return Bounded(x.v, flint.arb(x.v), x.arithmetic)


def meet(one: Bounded, other: Any) -> Any:
    """Return the other operand as a number of the same world; a dual number stays what it is."""
    if type(other) is Bounded:
        return other
    if isinstance(other, (int, Fraction)):
        return constant(one.arithmetic, other)
    if isinstance(other, Dual):
        return other  # a pair of such numbers: it answers itself
    raise TypeError(
        f"a Bounded meets a {type(other).__name__}; accepted are Bounded, ints and fractions. "
        "A float enters as an exact number through equivalence.worlds.bounded.exact."
    )


def read(x: Bounded) -> Bounded:
    """Return what the operand of a step may be read as, where the contract flushes operands."""
    arithmetic = x.arithmetic
    w = arithmetic.read(x.w)
    if w is x.w:
        return x
    strict = arithmetic.read(x.strict) if x.depth < GENERIC else None
    return Bounded(x.v, w, arithmetic, strict, max(x.depth, 1), x.last)


def always_zero(x: Bounded) -> bool:
    """Whether every program of the page has 0 here: an exact 0, or what equal numbers differ by.

    What more terms add up to is 0 in one order, and in another not; nor is it if they are scaled.
    """
    if not (x.strict is x.v and x.v.is_zero()):
        return False
    return not x.depth or (type(x.last) is list and len(x.last) == 2)


def moved(x: Bounded, v: Arb, move: Callable[[Arb], Arb], last: Any, made: Any = None) -> Bounded:
    """Map the balls of a number by what rounds nothing; v is the exact result."""
    if not x.depth:
        return Bounded(v, v, x.arithmetic, v, 0, last, None, made)
    strict = x.strict
    if strict is not None:
        strict = v if strict is x.v else move(strict)
    return Bounded(v, move(x.w), x.arithmetic, strict, x.depth, last, None, made)


def rounded_once(v: Arb, arithmetic: Arithmetic, last: Any, made: Any = None) -> Bounded:
    """Round the exact result of exact operands once: v itself where it is representable."""
    w = arithmetic.rounded(v)
    return Bounded(v, w, arithmetic, v if arithmetic.holds(v) else w, 1, last, None, made)


def _combined(operation: Callable[[Arb, Arb], Arb], x: Bounded, y: Any) -> Bounded:
    """Add or subtract; a 0 that nobody computed changes nothing, and x - x is 0."""
    if type(y) is Dual:
        return NotImplemented  # type: ignore[no-any-return]
    arithmetic = x.arithmetic
    if x is y and operation is operator.sub:
        return difference_of_itself(x)
    if arithmetic.reads:
        x, y = read(x), read(y)
    if not y.depth and y.v.is_zero():
        return by_luck(x, y)
    if not x.depth and x.v.is_zero():
        return by_luck(y if operation is operator.add else -y, x)
    v = operation(x.v, y.v)
    last = [x.v, y.v]
    depth = max(x.depth, y.depth)
    if not depth:
        return rounded_once(v, arithmetic, last)
    w = arithmetic.rounded(operation(x.w, y.w))
    made = [x, y] if operation is operator.add else [x, y, False]
    if x.terms is not None and not y.depth:
        return _joined(v, w, operation(x.terms.total, y.v), x, y)
    if y.terms is not None and not x.depth:
        return _joined(v, w, operation(x.v, y.terms.total), y, x)
    return Bounded(v, w, arithmetic, None, depth + 1, last, None, made)


def by_luck(x: Bounded, zero: Bounded) -> Bounded:
    """Return x, to which a step adds a number that is exactly 0.

    Where the page itself holds the 0, the step is a move. Where an input happened to be 0, a stable
    contract counts the step: another program may round there, as huber_loss over beta does where
    smooth_l1_loss subtracts a constant from |x - 0|. A sum is one step, whatever joins it.
    """
    arithmetic = x.arithmetic
    if not arithmetic.stable or x.terms is not None or x.v.is_zero():
        return x
    if arithmetic.constants.get(0) is zero:
        return x
    if not x.depth:
        return rounded_once(x.v, arithmetic, x.last, x.made)
    w = arithmetic.rounded(x.w)
    return Bounded(x.v, w, arithmetic, None, x.depth + 1, x.last, x.terms, x.made)


def _joined(v: Arb, w: Arb, total: Arb, x: Bounded, y: Bounded) -> Bounded:
    """Add an exact number to a sum, last or as one of its terms; w is what it gives last."""
    terms: Any = x.terms
    arithmetic, depth = x.arithmetic, x.depth
    count, size = terms.number + 1, terms.size + abs(y.v)
    values = None if terms.values is None else [*terms.values, y.v]
    w = w.union(arithmetic.summed(size, total, count, terms.products))
    strict = None
    if depth < GENERIC:
        strict = w
        # Added last, the number meets a sum that has been rounded already.
        settled = values if x.strict is x.v else None
        if settled is not None and arithmetic.sums_exactly(
            settled, size, total, count, terms.products
        ):
            strict = v if arithmetic.holds(v) else w
    joined = Terms(count, size, total, terms.products, values)
    return Bounded(v, w, arithmetic, strict, depth, [*x.last, y.v], joined)


def _multiplied(x: Bounded, y: Any) -> Bounded:
    """Multiply; exact zeros and powers of two cost nothing."""
    if type(y) is Dual:
        return NotImplemented  # type: ignore[no-any-return]
    arithmetic = x.arithmetic
    if arithmetic.reads:
        x, y = read(x), read(y)
    x, y = distributed(x, y), distributed(y, x)
    if always_zero(x):
        return zero_of(y, (x, y))
    if always_zero(y):
        return zero_of(x, (x, y))
    if not x.depth and x.v.bits() == 1:
        return scaled(x, y)
    if not y.depth and y.v.bits() == 1:
        return scaled(y, x)
    v = x.v * y.v
    last = None if x.last is None and y.last is None else (x, y)
    depth = max(x.depth, y.depth)
    if not depth:
        return rounded_once(v, arithmetic, last, (x, y))
    w = arithmetic.rounded(x.w * y.w)
    return Bounded(v, w, arithmetic, None, depth + 1, last, None, (x, y))


def scaled(factor: Bounded, x: Bounded) -> Bounded:
    """Multiply by a power of two, which is exact up to underflow; by 1, nothing happens."""
    two, arithmetic = factor.v, x.arithmetic
    if two == ONE and not (arithmetic.stable and x.depth >= GENERIC):
        return x
    v = two * x.v
    last = None if x.last is None else (factor, x)
    if x.strict is x.v and not arithmetic.holds(v):
        w = arithmetic.rounded(v)
        return Bounded(v, w, arithmetic, w, 1, last, None, (factor, x))
    found = moved(x, v, lambda w: arithmetic.scaled(two, w), last, (factor, x))
    if arithmetic.stable and x.depth >= GENERIC:
        found.depth += 1  # by chance alone this step rounds nothing
    return found


def zero_of(other: Bounded, made: Any = None) -> Bounded:
    """An exact zero, unless it met what is unconstrained: infinity times 0 has no value."""
    arithmetic = other.arithmetic
    if other.unconstrained:
        return opened(ZERO, arithmetic)
    return Bounded(ZERO, ZERO, arithmetic, ZERO, 0, None, None, made)


def difference_of_itself(x: Bounded) -> Bounded:
    """Return x - x, which is 0; a stable contract remembers of what it is the difference."""
    zero = zero_of(x)
    if x.arithmetic.stable and not x.unconstrained:
        zero.depth, zero.last = 1, [x.v, x.v]
    return zero


def distributed(zero: Bounded, factor: Bounded) -> Bounded:
    """Return x - x as it may be where a stable contract allows x r - x r for (x - x) r.

    Each of the two products may be rounded, by u of it, unless r is exact: then they are equal.
    """
    arithmetic = zero.arithmetic
    if not (arithmetic.stable and zero.depth and factor.depth and always_zero(zero)):
        return zero
    around = spread(2 * arithmetic.steps.unit) * zero.last[0]
    return Bounded(ZERO, around, arithmetic, None, GENERIC, zero.last)


def opened(v: Arb, arithmetic: Arithmetic) -> Bounded:
    """Return a number of which the contract says nothing."""
    return Bounded(v, NAN, arithmetic)
