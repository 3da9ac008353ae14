"""Sets of values: numbers of a format, the infinities and NaN, any of which a scalar may be.

A `SpecialValues` is the set of what an allowed evaluation may give: some of NaN, +inf and -inf, and
perhaps finite numbers, which are a `Bounded`.
Every step follows the tables of IEEE 754 for each pair of possibilities, and a question that they
answer differently becomes a Doubt, on which `select` takes both branches.

* The finite part is computed in the range of binary64, whatever the contract's format: an
  implementation may hold an intermediate result in a wider format, or never form it.
  A step that may leave the narrower range may also give an infinity, of its sign.
* The terms of a sum come in any order: it may overflow towards either side whose terms suffice for
  it, and give NaN where both do.
* The sign of a zero is not kept, so the quotient by one may be either infinity.
* What was not chosen by `select` is no part of the result.
* Where nothing is known of the finite numbers, the finite part is unconstrained.

So a set may be too large, never too small.  Where no input is special and nothing overflows, the
world of `equivalence.worlds.bounded` says the same and is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from equivalence.worlds import bounded
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import NAN, Arb
from equivalence.worlds.bounded import Bounded
from equivalence.worlds.contract import FP64, Contract
from equivalence.worlds.grid import ONE, Range
from equivalence.worlds.kinds import (
    ANYTHING,
    INFINITE,
    MINUS,
    NANS,
    NOT_A_NUMBER,
    PLUS,
    UNDEFINED,
    named,
    opposite,
)
from equivalence.worlds.steps import Steps
from spec import scalar


class Line:
    """The extended real line of a contract: its arithmetic, and where its formats end."""

    __slots__ = ("arithmetic", "constants", "left", "overflows", "range", "steps", "store", "zero")

    def __init__(self, contract: Contract, overflows: bool = True) -> None:
        """Compile the contract with a wide range, and remember the narrow one.

        `left` says later whether a step on finite numbers has left that of the contract; overflows
        says that a step is infinite which leaves the wide range, too; else it is open.
        """
        self.overflows, self.left = overflows, False
        self.steps = Steps.of(contract)
        self.range = Range(self.steps.largest)
        self.arithmetic = Arithmetic(contract, self.steps.widened())
        self.store = self.steps.last.format.max_finite
        self.constants: dict[Any, SpecialValues] = {}
        self.zero = SpecialValues(self, 0, bounded.constant(self.arithmetic, 0))

    def special(self, x: Any) -> SpecialValues:
        """Take an exact constant, a Bounded of this line or a set of values to this line."""
        if type(x) is SpecialValues:
            return x
        if type(x) is Bounded:
            return SpecialValues(self, 0, x)
        if not isinstance(x, int | Fraction):
            raise TypeError(
                f"SpecialValues meet a {type(x).__name__}; accepted are their own, ints and "
                "fractions. A float enters through equivalence.worlds.special_values.steps.lifted."
            )
        found = self.constants.get(x)
        if found is None:
            found = self.within(bounded.constant(self.arithmetic, x), self.steps.largest)
            self.constants[x] = found
        return found

    def of(self, kinds: int) -> SpecialValues:
        """Return what is not finite for certain."""
        return SpecialValues(self, kinds, None)

    def anything(self, finite: Bounded | None = None) -> SpecialValues:
        """Return the set of everything."""
        return SpecialValues(self, UNDEFINED | INFINITE, finite or self.unknown())

    def unknown(self) -> Bounded:
        """Return a finite number of which nothing is known."""
        return Bounded(NAN, NAN, self.arithmetic)

    def within(self, x: Bounded, largest: float) -> SpecialValues:
        """Add the infinities that a finite result may have become beyond the largest number."""
        return SpecialValues(self, beyond(x.w, largest), x)

    def in_another_order(self, kinds: int, beside: Sequence[Arb]) -> int:
        """Say what else a product may be that has infinities among its factors.

        Where its finite factors meet first they may underflow to 0, of which an infinity makes NaN.
        """
        if not self.arithmetic.stable or not kinds & INFINITE:
            return 0
        sizes = [size for size in (abs(factor) for factor in beside) if size < 1]
        product = ONE
        for size in sizes:
            product = product * size
        return UNDEFINED if len(sizes) > 1 and self.arithmetic.vanishes(product) else 0

    def settled(self, x: Bounded, ball: Callable[[], Arb], nearest: bool = False) -> SpecialValues:
        """Return what a step on finite numbers gives; ball is its result before any rounding.

        Nearest says that it is rounded once, to nearest.
        """
        if not x.unconstrained:
            if self.range.contains(x.w):
                return SpecialValues(self, 0, x)
            found = self.within(x, self.steps.largest)
            if found.kinds and nearest:
                found.kinds &= beyond(ball(), self.steps.turning)
            self.left |= bool(found.kinds)
            return found
        exact = ball()
        if not exact.is_finite():
            return self.anything(x)
        slack = 1 - 4 * self.steps.unit
        self.left = True
        inside = float(exact.abs_lower()) * slack <= FP64.max_finite
        if not inside and not self.overflows:
            return self.anything()
        return SpecialValues(self, beyond(exact / slack, self.steps.largest), x if inside else None)


def beyond(w: Arb, largest: float) -> int:
    """Say which infinities numbers of a ball may become in a format with this largest number."""
    return (0 if w <= largest else PLUS) | (0 if w >= -largest else MINUS)


class SpecialValues:
    """What an allowed evaluation may give: kinds that are not finite, and a finite part or None.

    beside holds the finite factors that the infinities among them have met.
    """

    __slots__ = ("beside", "finite", "kinds", "line")

    def __init__(
        self, line: Line, kinds: int, finite: Bounded | None, beside: tuple[Arb, ...] = ()
    ) -> None:
        """Hold a set that is not empty."""
        self.line = line
        self.kinds = kinds
        self.finite = finite
        self.beside = beside

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic of the finite part."""
        return self.line.arithmetic

    @property
    def unconstrained(self) -> bool:
        """Whether the contract says nothing about this scalar."""
        free = self.finite is not None and self.finite.unconstrained
        return free and self.kinds == ANYTHING

    @property
    def lost(self) -> bool:
        """Whether this is NaN for certain, because of one among the inputs."""
        return self.finite is None and self.kinds == NOT_A_NUMBER

    def __add__(self, other: Any) -> SpecialValues:
        """Add, and round once."""
        return added(self, self.line.special(other))

    def __sub__(self, other: Any) -> SpecialValues:
        """Subtract, and round once."""
        return added(self, -self.line.special(other))

    def __rsub__(self, other: Any) -> SpecialValues:
        """Subtract from an exact constant, and round once."""
        return added(-self, self.line.special(other))

    def __mul__(self, other: Any) -> SpecialValues:
        """Multiply, and round once."""
        return multiplied(self, self.line.special(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> SpecialValues:
        """Change the sign, exactly."""
        finite = None if self.finite is None else -self.finite
        return SpecialValues(self.line, opposite(self.kinds), finite, self.beside)

    def __repr__(self) -> str:
        """List the possibilities."""
        finite = [] if self.finite is None else [repr(self.finite)]
        return f"{{{', '.join([*named(self.kinds), *finite])}}}"


def signs(x: SpecialValues, less: int = 0) -> Iterator[int]:
    """Yield 1, 0 and -1 where the finite part, as a step reads it, less an integer, may have it."""
    if x.finite is None:
        return
    w = x.finite.w
    if x.arithmetic.reads and w.is_finite():
        w = x.arithmetic.read(w)
    if not w <= less:
        yield 1
    if not w.is_finite() or w.contains(less):
        yield 0
    if not w >= less:
        yield -1


def infinite_times(kinds: int, other: SpecialValues) -> int:
    """Return what the infinities among kinds times a set may be, its own NaN apart."""
    kinds &= INFINITE
    if not kinds:
        return 0
    found = 0
    for sign in signs(other):
        found |= UNDEFINED if sign == 0 else kinds if sign > 0 else opposite(kinds)
    if other.kinds & PLUS:
        found |= kinds
    return found | (opposite(kinds) if other.kinds & MINUS else 0)


def joined(x: SpecialValues, y: SpecialValues) -> SpecialValues:
    """Return the union of two sets; the exact value is the first one's."""
    if x.finite is None or y.finite is None:
        return SpecialValues(x.line, x.kinds | y.kinds, x.finite or y.finite)
    a, b = x.finite, y.finite
    if not (a.exact and b.exact and a.v == b.v):
        a = Bounded(a.v, a.w.union(b.w) if not b.unconstrained else NAN, a.arithmetic)
    return SpecialValues(x.line, x.kinds | y.kinds, a)


def added(x: SpecialValues, y: SpecialValues) -> SpecialValues:
    """Add two sets: opposite infinities have no sum, and others absorb what is finite."""
    line, either, both = x.line, x.kinds | y.kinds, x.kinds & y.kinds
    if not either:
        a, b = bounded_of(x), bounded_of(y)
        return line.settled(a + b, lambda: a.w + b.w, nearest=True)
    if x.lost or y.lost:
        return line.of(NOT_A_NUMBER)
    kinds = both & INFINITE | either & NANS
    if (x.kinds & PLUS and y.kinds & MINUS) or (x.kinds & MINUS and y.kinds & PLUS):
        kinds |= UNDEFINED
    kinds |= x.kinds & INFINITE if y.finite is not None else 0
    kinds |= y.kinds & INFINITE if x.finite is not None else 0
    if x.finite is None or y.finite is None:
        return line.of(kinds)
    found = added(SpecialValues(line, 0, x.finite), SpecialValues(line, 0, y.finite))
    return SpecialValues(line, kinds | found.kinds, found.finite)


def bounded_of(x: SpecialValues) -> Bounded:
    """Return the finite part of a set that has one."""
    assert x.finite is not None, "only a set with a finite part is asked for it"
    return x.finite


def read_of(x: SpecialValues) -> Arb:
    """Return what the finite part may be read as."""
    w = bounded_of(x).w
    return x.arithmetic.read(w) if x.arithmetic.reads and w.is_finite() else w


def multiplied(x: SpecialValues, y: SpecialValues) -> SpecialValues:
    """Multiply two sets: infinity times 0 has no value."""
    line = x.line
    if not (x.kinds | y.kinds):
        found = _finite_product(x, y)
        found.beside = x.beside + y.beside
        return found
    if x.lost or y.lost:
        return line.of(NOT_A_NUMBER)
    kinds = (x.kinds | y.kinds) & NANS
    kinds |= infinite_times(x.kinds, y) | infinite_times(y.kinds, x)
    beside = met(x, y.finite) + met(y, x.finite)
    kinds |= line.in_another_order(kinds, beside)
    if x.finite is None or y.finite is None:
        return SpecialValues(line, kinds, None, beside)
    found = _finite_product(x, y)
    return SpecialValues(line, kinds | found.kinds, found.finite, beside)


def _finite_product(x: SpecialValues, y: SpecialValues) -> SpecialValues:
    a, b = bounded_of(x), bounded_of(y)
    return x.line.settled(a * b, lambda: a.w * b.w, nearest=True)


def met(x: SpecialValues, factor: Bounded | Arb | None) -> tuple[Arb, ...]:
    """Return the finite factors that infinities of a set have met after one more."""
    if not x.kinds & INFINITE or factor is None:
        return x.beside
    return (*x.beside, factor.w if isinstance(factor, Bounded) else factor)


def pair(x: Any, y: Any) -> tuple[SpecialValues, SpecialValues]:
    """Take two scalars, one of which is a SpecialValues, to its line."""
    line = x.line if type(x) is SpecialValues else y.line
    return line.special(x), line.special(y)


scalar.zero_like.register(SpecialValues)(lambda x: x.line.zero)
scalar.lift.register(SpecialValues)(lambda like, value: like.line.special(value))
