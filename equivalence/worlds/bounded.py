"""Bounded scalars: the exact value of a page, and everything that a contract's arithmetic may give.

A `Bounded` holds v, a certified ball around the exact value, thin as 256 bits allow, and a ball of
results, so that the distance from v to the far side of that ball is a budget.
Each elementary step maps balls with ball arithmetic and widens them by that step's declared error
(`equivalence.worlds.arithmetic`); nothing is linearized.

A result is held to equality where that is promised, and nowhere by luck:

* `depth` counts the roundings on a scalar's way. Inputs and constants of the format have none; a
  step has one more than its operands, a whole sum or dot product being one step.
* Up to one rounding, `strict` counts: a correctly rounded step on exact operands gives its exact
  result if that is representable, and a sum rounds nothing if no partial sum can be rounded.
* Beyond it, w counts, where every step rounds (*generic position*): another program of the same
  page has other intermediate results, and need not be exact where this one happens to be.
* Moves round nothing and keep both: negation, maximum, select, multiplication by a power of two,
  adding 0. x - x of one number is 0, as are 0 x and functions whose exact result is 0 or 1.
* A sum remembers its terms: an exact number that is added to it may have been one of them.

A contract of freedom "stable" also allows what a program as stable as the page may lose: to a
result of d > 1 roundings, d u times the largest term of its last sum (`stored`).
A comparison that the contract leaves open becomes a `Fork`, and select takes the hull.
A ball that leaves the range of the format, or on which an operation is not defined, makes
everything that depends on it *unconstrained*.

The contract travels with the scalars, in their `Arithmetic`.

>>> from equivalence.worlds.contract import FP32, Contract
>>> from spec.scalar import divide
>>> one, ten = exact(Arithmetic(Contract("ieee", FP32, FP32)), 1.0, 10.0)
>>> (ten + one).exact, divide(one, ten).exact, divide(one, one - one).unconstrained
(True, False, True)
>>> (ten + one).depth, ((ten + one) * ten).depth, ((ten + one) * ten).exact
(1, 2, False)
"""

# This file is longer than the guide because the rules of one world stand in one table.

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import flint

from equivalence.worlds.arithmetic import ONE, ZERO, Arithmetic
from equivalence.worlds.balls import (
    NAN,
    PI,
    UNKNOWN,
    Arb,
    Truth,
    arb,
    certainly_equal,
    certainly_less,
    square_of,
)
from spec import scalar
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
    terms   of a sum, what it is made of
    """

    __slots__ = ("arithmetic", "depth", "last", "strict", "terms", "v", "w")

    def __init__(
        self,
        v: Arb,
        w: Arb,
        arithmetic: Arithmetic,
        strict: Arb = None,
        depth: int = GENERIC,
        last: Any = None,
        terms: Terms | None = None,
    ) -> None:
        """Hold the ball of the value and of results; without more, a result of many steps."""
        self.v = v
        self.w = w
        self.arithmetic = arithmetic
        self.strict = strict
        self.depth = depth
        self.last = last
        self.terms = terms

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
        return not self.ball.is_finite()

    def under(self, arithmetic: Arithmetic) -> Bounded:
        """Return the same number under another contract."""
        return Bounded(self.v, self.w, arithmetic, self.strict, self.depth, self.last, self.terms)

    def __add__(self, other: Any) -> Bounded:
        """Add, and round once."""
        return _combined(operator.add, self, _meet(self, other))

    def __sub__(self, other: Any) -> Bounded:
        """Subtract, and round once."""
        return _combined(operator.sub, self, _meet(self, other))

    def __rsub__(self, other: Any) -> Bounded:
        """Subtract from an exact constant, and round once."""
        return _combined(operator.sub, _meet(self, other), self)

    def __mul__(self, other: Any) -> Bounded:
        """Multiply, and round once."""
        return _multiplied(self, _meet(self, other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Bounded:
        """Change the sign, exactly."""
        return _moved(self, -self.v, operator.neg, self.last)

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


def stored(x: Bounded) -> Bounded:
    """Round to the storage format: the last step of every result.

    The ball of the page's own steps stays in `strict`, beside that of the contract's freedom in w.
    """
    arithmetic, depth = x.arithmetic, x.depth
    page = arithmetic.stored(x.ball, x.exact)
    w = page
    if arithmetic.stable and depth >= GENERIC:
        w = arithmetic.stored(x.ball.union(x.v + arithmetic.floor(depth, magnitude(x))), False)
    return Bounded(x.v, w, arithmetic, page, GENERIC, x.last)


def either(x: Bounded, y: Bounded) -> Bounded:
    """Allow what two programs of one page may store; x is the page's own."""
    if not x.v.overlaps(y.v):
        raise ValueError(f"a form is another program of its page: it gives {y}, the page {x}")
    return Bounded(x.v, x.w if y.w is y.v else x.w.union(y.w), x.arithmetic, x.strict)


def magnitude(of: Bounded) -> Arb:
    """Return the largest term of the last sum, scaled by the factors that came after it.

    `last` holds the terms of a sum; the two numbers of a product, and of a quotient, which has a
    third item; or nothing, where |v| will do.
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
    return largest


def _meet(one: Bounded, other: Any) -> Any:
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


def _read(x: Bounded) -> Bounded:
    """Return what the operand of a step may be read as, where the contract flushes operands."""
    arithmetic = x.arithmetic
    w = arithmetic.read(x.w)
    if w is x.w:
        return x
    strict = arithmetic.read(x.strict) if x.depth < GENERIC else None
    return Bounded(x.v, w, arithmetic, strict, max(x.depth, 1), x.last)


def _is_zero(x: Bounded) -> bool:
    """Whether every program of the page has 0 here: an exact 0, or what equal numbers differ by.

    What more terms add up to is 0 in one order, and in another not; nor is it if they are scaled.
    """
    if not (x.strict is x.v and x.v.is_zero()):
        return False
    return not x.depth or (type(x.last) is list and len(x.last) == 2)


def _moved(x: Bounded, v: Arb, move: Callable[[Arb], Arb], last: Any) -> Bounded:
    """Map the balls of a number by what rounds nothing; v is the exact result."""
    if not x.depth:
        return Bounded(v, v, x.arithmetic, v, 0, last)
    strict = x.strict
    if strict is not None:
        strict = v if strict is x.v else move(strict)
    return Bounded(v, move(x.w), x.arithmetic, strict, x.depth, last)


def _step(v: Arb, arithmetic: Arithmetic, last: Any) -> Bounded:
    """Round the exact result of exact operands once: v itself where it is representable."""
    w = arithmetic.rounded(v)
    return Bounded(v, w, arithmetic, v if arithmetic.holds(v) else w, 1, last)


def _combined(operation: Callable[[Arb, Arb], Arb], x: Bounded, y: Any) -> Bounded:
    """Add or subtract; a 0 that nobody computed changes nothing, and x - x is 0."""
    if type(y) is Dual:
        return NotImplemented  # type: ignore[no-any-return]
    arithmetic = x.arithmetic
    if x is y and operation is operator.sub:
        return _zero_of(x)
    if arithmetic.reads:
        x, y = _read(x), _read(y)
    if not y.depth and y.v.is_zero():
        return x
    if not x.depth and x.v.is_zero():
        return y if operation is operator.add else -y  # type: ignore[no-any-return]
    v = operation(x.v, y.v)
    last = [x.v, y.v]
    depth = max(x.depth, y.depth)
    if not depth:
        return _step(v, arithmetic, last)
    w = arithmetic.rounded(operation(x.w, y.w))
    if x.terms is not None and not y.depth:
        return _joined(v, w, operation(x.terms.total, y.v), x, y)
    if y.terms is not None and not x.depth:
        return _joined(v, w, operation(x.v, y.terms.total), y, x)
    return Bounded(v, w, arithmetic, None, depth + 1, last)


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
        if values is not None and arithmetic.sums_exactly(
            values, size, total, count, terms.products
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
        x, y = _read(x), _read(y)
    if _is_zero(x):
        return _zero_of(y)
    if _is_zero(y):
        return _zero_of(x)
    if not x.depth and x.v.bits() == 1:
        return _scaled(x, y)
    if not y.depth and y.v.bits() == 1:
        return _scaled(y, x)
    v = x.v * y.v
    last = None if x.last is None and y.last is None else (x, y)
    depth = max(x.depth, y.depth)
    if not depth:
        return _step(v, arithmetic, last)
    return Bounded(v, arithmetic.rounded(x.w * y.w), arithmetic, None, depth + 1, last)


def _scaled(factor: Bounded, x: Bounded) -> Bounded:
    """Multiply by a power of two, which is exact up to underflow; by 1, nothing happens."""
    two = factor.v
    if two == ONE:
        return x
    v = two * x.v
    last = None if x.last is None else (factor, x)
    arithmetic = x.arithmetic
    if x.strict is x.v and not arithmetic.holds(v):
        w = arithmetic.rounded(v)
        return Bounded(v, w, arithmetic, w, 1, last)
    return _moved(x, v, lambda w: arithmetic.scaled(two, w), last)


def _zero_of(other: Bounded) -> Bounded:
    """An exact zero, unless it met what is unconstrained: infinity times 0 has no value."""
    return _open(ZERO, other.arithmetic) if other.unconstrained else constant(other.arithmetic, 0)


def _open(v: Arb, arithmetic: Arithmetic) -> Bounded:
    """Return a number of which the contract says nothing."""
    return Bounded(v, NAN, arithmetic)


class Fork:
    """A question that the declared arithmetic may answer either way.

    value is the answer for the exact value; tainted says that an unconstrained scalar was asked.
    """

    __slots__ = ("arithmetic", "tainted", "value")

    def __init__(self, value: Truth, tainted: bool, arithmetic: Arithmetic) -> None:
        """Hold the answer for the exact value."""
        self.value = value
        self.tainted = tainted
        self.arithmetic = arithmetic

    def __bool__(self) -> bool:
        """Refuse to be read as True or False."""
        raise TypeError("the contract leaves this question open; read it with spec.scalar.select")


def _pair(x: Any, y: Any) -> tuple[Bounded, Bounded]:
    return (x, _meet(x, y)) if type(x) is Bounded else (_meet(y, x), y)


def _question(ask: Callable[[Arb, Arb], Truth], same: bool) -> Callable[[Any, Any], bool | Fork]:
    def rule(x: Any, y: Any) -> bool | Fork:
        if x is y and not x.unconstrained:
            return same  # one computed number, whatever it is
        x, y = _pair(x, y)
        arithmetic = x.arithmetic
        if arithmetic.reads:
            x, y = _read(x), _read(y)
        a, b = x.ball, y.ball
        certain = a.is_finite() and b.is_finite()
        answer = ask(a, b) if certain else UNKNOWN
        if isinstance(answer, bool):
            return answer
        return Fork(ask(x.v, y.v), not certain, arithmetic)

    return rule


scalar.less.register(Bounded)(_question(certainly_less, same=False))
scalar.equal.register(Bounded)(_question(certainly_equal, same=True))
scalar.is_zero.register(Bounded)(lambda x, _: _is_zero(x))


@scalar.select.register(Fork)
def _select(truth: Fork, first: Any, second: Any) -> Any:
    if isinstance(first, Dual) or isinstance(second, Dual):
        (a, s), (b, t) = ((x.value, x.tangent) if isinstance(x, Dual) else (x, 0)
                          for x in (first, second))  # fmt: skip
        return Dual(_select(truth, a, b), _select(truth, s, t))
    arithmetic = truth.arithmetic
    x, y = (
        branch if type(branch) is Bounded else constant(arithmetic, branch)
        for branch in (first, second)
    )
    v = x.v.union(y.v) if truth.value is UNKNOWN else x.v if truth.value else y.v
    if truth.tainted:
        return _open(v, arithmetic)
    if x.exact and y.exact and x.v == y.v:
        return x
    return _either(v, x, y, _union)


def _either(v: Arb, x: Bounded, y: Bounded, join: Callable[[Arb, Arb], Arb]) -> Bounded:
    """Return one of two numbers, whichever: a move of both."""
    depth = max(x.depth, y.depth, 1)
    strict = join(x.strict, y.strict) if depth < GENERIC else None
    return Bounded(v, join(x.w, y.w), x.arithmetic, strict, depth, [magnitude(x), magnitude(y)])


def _union(a: Arb, b: Arb) -> Arb:
    return a.union(b)


def _largest(a: Arb, b: Arb) -> Arb:
    return a.max(b)


@scalar.divide.register(Bounded)
def _divide(x: Any, y: Any) -> Bounded:
    x, y = _pair(x, y)
    arithmetic = x.arithmetic
    if arithmetic.reads:
        x, y = _read(x), _read(y)
    v = x.v / y.v
    if _is_zero(x):
        return constant(arithmetic, 0) if (x.v / y.ball).is_finite() else _open(v, arithmetic)
    depth = max(x.depth, y.depth)
    if not y.depth and arithmetic.divides_exactly(y.v):
        return _scaled(Bounded(ONE / y.v, y.w, arithmetic), x)
    last = None if x.last is None and y.last is None else (x, y, True)
    w = arithmetic.divided(x.w, y.w, None)
    if depth:
        return Bounded(v, w, arithmetic, None, depth + 1, last)
    strict = arithmetic.divided(x.v, y.v, v)
    return Bounded(v, w, arithmetic, strict, 1, last)


@scalar.maximum.register(Bounded)
def _maximum(first: Any, second: Any) -> Bounded:
    x, y = _pair(first, second)
    if certainly_less(x.ball, y.ball) is True and certainly_less(x.v, y.v) is True:
        return y  # itself: whoever asks which one was largest recognizes it
    if certainly_less(y.ball, x.ball) is True and certainly_less(y.v, x.v) is True:
        return x
    if x.exact and y.exact:
        return x
    return _either(x.v.max(y.v), x, y, _largest)


def _function(name: str, evaluate: Callable[[Arb], Arb]) -> Callable[[Bounded], Bounded]:
    def rule(x: Bounded) -> Bounded:
        arithmetic = x.arithmetic
        if arithmetic.reads:
            x = _read(x)
        v = evaluate(x.v)
        exactly = (not x.depth or _is_zero(x)) and arithmetic.applied_exactly(name, v)
        if exactly and (v.is_zero() or v == ONE):
            return constant(arithmetic, 0 if v.is_zero() else 1)
        depth = x.depth + 1
        w = arithmetic.applied(name, v if depth == 1 else evaluate(x.w), x.w)
        strict = None if depth >= GENERIC else v if exactly else w
        return Bounded(v, w, arithmetic, strict, depth)

    return rule


for _rule in (scalar.exp, scalar.log, scalar.sqrt, scalar.tanh, scalar.cos, scalar.sin):
    _rule.register(Bounded)(_function(_rule.name, getattr(flint.arb, _rule.name)))


@scalar.pi_like.register(Bounded)
def _pi_like(x: Bounded) -> Bounded:
    return within(PI, x.arithmetic.rounded(PI), x.arithmetic)


@scalar.square.register(Bounded)
def _square(x: Bounded) -> Bounded:
    arithmetic = x.arithmetic
    if arithmetic.reads:
        x = _read(x)
    if _is_zero(x):
        return x
    v = square_of(x.v)
    last = None if x.last is None else (x, x)
    if not x.depth:
        return _step(v, arithmetic, last)
    w = arithmetic.rounded(square_of(x.w))
    return Bounded(v, w, arithmetic, None, x.depth + 1, last)


@scalar.absolute.register(Bounded)
def _absolute(x: Bounded) -> Bounded:
    return _moved(x, abs(x.v), abs, x.last)


scalar.zero_like.register(Bounded)(lambda x: constant(x.arithmetic, 0))
scalar.lift.register(Bounded)(lambda like, value: constant(like.arithmetic, value))


def _all_bounded(*rows: Sequence[Any]) -> tuple[Arithmetic, list[list[Bounded]]]:
    """Turn the constants among the terms into Bounded; at least one term is one already."""
    one = next(term for row in rows for term in row if type(term) is Bounded)
    return one.arithmetic, [[_meet(one, term) for term in row] for row in rows]


@scalar.sum_terms.register(Bounded)
def _sum_terms(terms: Sequence[Any]) -> Bounded:
    arithmetic, (row,) = _all_bounded(terms)
    if arithmetic.reads:
        row = list(map(_read, row))
    some = [term for term in row if term.depth or not term.v.is_zero()]
    if len(some) <= 1:
        return some[0] if some else row[0]
    depth = 1 + max(term.depth for term in row)
    values = [term.v for term in row]
    results = values if depth == 1 else [term.w for term in row]
    return _total(arithmetic, values, results, len(some), depth, False)


@scalar.dot_terms.register(Bounded)
def _dot_terms(left: Sequence[Any], right: Sequence[Any]) -> Bounded:
    arithmetic, (one, two) = _all_bounded(left, right)
    if arithmetic.reads:
        one, two = list(map(_read, one)), list(map(_read, two))
    depth = 1 + max(term.depth for term in one + two)
    values = list(map(operator.mul, [a.v for a in one], [b.v for b in two]))
    a, b = [term.w for term in one], [term.w for term in two]
    if arithmetic.dot_reader is not None:
        a, b = list(map(arithmetic.dot_reader, a)), list(map(arithmetic.dot_reader, b))
    same = all(t.v is w for t, w in zip(one + two, a + b, strict=True))
    results = values if same else list(map(operator.mul, a, b))
    count = len(values) - sum(map(flint.arb.is_zero, results))
    if count == 0:
        return constant(arithmetic, 0)
    return _total(arithmetic, values, results, count, depth, True)


def _total(
    arithmetic: Arithmetic,
    values: list[Arb],
    results: list[Arb],
    count: int,
    depth: int,
    products: bool,
) -> Bounded:
    """Add terms along any tree; they are exact if results are the values themselves."""
    same = results is values
    size = sum(map(abs, results), ZERO)
    total = sum(results, ZERO)
    v = total if same else sum(values, ZERO)
    w = arithmetic.summed(size, total, count, products)
    strict = None
    if depth < GENERIC:
        strict = w
        if same and arithmetic.sums_exactly(values, size, total, count, products):
            strict = v if arithmetic.holds(v) else w
    terms = Terms(count, size, total, products, values if same else None)
    return Bounded(v, w, arithmetic, strict, depth, values, terms)


@scalar.max_terms.register(Bounded)
def _max_terms(terms: Sequence[Any]) -> Bounded:
    _, (row,) = _all_bounded(terms)
    largest = row[0]
    for term in row[1:]:
        largest = _maximum(largest, term)
    return largest
