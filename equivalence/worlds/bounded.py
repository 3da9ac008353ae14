"""Bounded scalars: the exact value of a page, and everything that a contract's arithmetic may give.

A `Bounded` is a pair (v, w): v is a certified ball around the exact value, thin as 256 bits allow;
w is a ball that holds every result of the declared arithmetic, so the distance from v to the far
side of w is a budget.
Each elementary step maps w with ball arithmetic and widens it by that step's declared error
(`equivalence.worlds.arithmetic`); nothing is linearized.

* A scalar is *exact* when both are one and the same number of the format. A correctly rounded step
  on exact operands adds nothing if its result is representable, and a sum adds nothing if no
  partial sum can be rounded; so small integers and constant slices are judged exactly.
* Moves add nothing: negation, maximum, select, multiplication by a power of two.
* A comparison that the contract leaves open becomes a `Fork`, and select takes the hull.
* A ball that leaves the range of the format, or on which an operation is not defined, makes
  everything that depends on it *unconstrained*.

The contract travels with the scalars, in their `Arithmetic`.

>>> from equivalence.worlds.contract import FP32, Contract
>>> from spec.scalar import divide
>>> one, ten = exact(Arithmetic(Contract("ieee", FP32, FP32)), 1.0, 10.0)
>>> (ten + one).exact, divide(one, ten).exact, divide(one, one - one).unconstrained
(True, False, True)
"""

# This file is longer than the guide because the rules of one world stand in one table.

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import flint

from equivalence.worlds.arithmetic import ZERO, Arithmetic
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


class Bounded:
    """An exact value, and the ball of all results that a contract allows for it."""

    __slots__ = ("arithmetic", "v", "w")

    def __init__(self, v: Arb, w: Arb, arithmetic: Arithmetic) -> None:
        """Hold the ball of the value and the ball of results; one object for both means exact."""
        self.v = v
        self.w = w
        self.arithmetic = arithmetic

    @property
    def exact(self) -> bool:
        """Whether the contract allows the exact value only."""
        return self.w is self.v

    @property
    def unconstrained(self) -> bool:
        """Whether the contract says nothing about this scalar."""
        return not self.w.is_finite()

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
        v = -self.v
        return Bounded(v, v if self.w is self.v else -self.w, self.arithmetic)

    def __repr__(self) -> str:
        """Show the value, and the budget or why there is none."""
        if self.exact:
            return f"Bounded({self.v.str(15)}, exact)"
        if self.unconstrained:
            return f"Bounded({self.v.str(15)}, unconstrained)"
        return f"Bounded({self.v.str(15)}, within {float((self.w - self.v).abs_upper()):.3g})"


def exact(arithmetic: Arithmetic, *values: float) -> list[Bounded]:
    """Take floats as the exact numbers that they are; they must be finite."""
    return [Bounded(v, v, arithmetic) for v in map(flint.arb, values)]


def constant(arithmetic: Arithmetic, value: int | Fraction) -> Bounded:
    """Return an exact constant as a kernel holds it: rounded once if the format lacks it."""
    found = arithmetic.constants.get(value)
    if found is None:
        v = arb(value)
        found = Bounded(v, arithmetic.settled(v), arithmetic)
        arithmetic.constants[value] = found
    result: Bounded = found
    return result


def stored(x: Bounded) -> Bounded:
    """Round to the storage format: the last step of every result."""
    w = x.arithmetic.stored(x.w, x.w is x.v)
    return x if w is x.w else Bounded(x.v, w, x.arithmetic)


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


def _read(x: Bounded, y: Bounded) -> tuple[Arithmetic, Arb, Arb]:
    """Return what the operands of a step may be read as."""
    arithmetic = x.arithmetic
    if arithmetic.reads:
        return arithmetic, arithmetic.read(x.w), arithmetic.read(y.w)
    return arithmetic, x.w, y.w


def _combined(operation: Callable[[Arb, Arb], Arb], x: Bounded, y: Any) -> Bounded:
    """Add or subtract; an exact 0 changes nothing."""
    if type(y) is Dual:
        return NotImplemented  # type: ignore[no-any-return]
    arithmetic, a, b = _read(x, y)
    v = operation(x.v, y.v)
    if b is y.v:
        if a is x.v:
            return Bounded(v, arithmetic.settled(v), arithmetic)
        if b.is_zero():
            return Bounded(v, a, arithmetic)
    elif a is x.v and a.is_zero():
        return Bounded(v, operation(a, b), arithmetic)
    return Bounded(v, arithmetic.rounded(operation(a, b)), arithmetic)


def _multiplied(x: Bounded, y: Any) -> Bounded:
    """Multiply; exact zeros and powers of two cost nothing."""
    if type(y) is Dual:
        return NotImplemented  # type: ignore[no-any-return]
    arithmetic, a, b = _read(x, y)
    v = x.v * y.v
    if a is x.v:
        if b is y.v:
            return Bounded(v, arithmetic.settled(v), arithmetic)
        if a.is_zero():
            return _zero_of(v, b, arithmetic)
        return Bounded(v, arithmetic.scaled(a, b), arithmetic)
    if b is y.v:
        if b.is_zero():
            return _zero_of(v, a, arithmetic)
        return Bounded(v, arithmetic.scaled(b, a), arithmetic)
    return Bounded(v, arithmetic.rounded(a * b), arithmetic)


def _zero_of(v: Arb, other: Arb, arithmetic: Arithmetic) -> Bounded:
    """An exact zero, unless it met what is unconstrained: infinity times 0 has no value."""
    return Bounded(v, v if other.is_finite() else NAN, arithmetic)


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
        arithmetic, a, b = _read(x, y)
        certain = a.is_finite() and b.is_finite()
        answer = ask(a, b) if certain else UNKNOWN
        if isinstance(answer, bool):
            return answer
        return Fork(ask(x.v, y.v), not certain, arithmetic)

    return rule


scalar.less.register(Bounded)(_question(certainly_less, same=False))
scalar.equal.register(Bounded)(_question(certainly_equal, same=True))
scalar.is_zero.register(Bounded)(lambda x, _: bool(x.w is x.v and x.w.is_zero()))


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
        return Bounded(v, NAN, arithmetic)
    if x.exact and y.exact and x.v == y.v:
        return x
    return Bounded(v, x.w.union(y.w), arithmetic)


@scalar.divide.register(Bounded)
def _divide(x: Any, y: Any) -> Bounded:
    x, y = _pair(x, y)
    arithmetic, a, b = _read(x, y)
    v = x.v / y.v
    both = a is x.v and b is y.v
    if a is x.v and a.is_zero():
        return _zero_of(v, a / b, arithmetic)
    return Bounded(v, arithmetic.divided(a, b, v if both else None), arithmetic)


@scalar.maximum.register(Bounded)
def _maximum(first: Any, second: Any) -> Bounded:
    x, y = _pair(first, second)
    if certainly_less(x.w, y.w) is True and certainly_less(x.v, y.v) is True:
        return y  # itself: whoever asks which one was largest recognizes it
    if certainly_less(y.w, x.w) is True and certainly_less(y.v, x.v) is True:
        return x
    if x.exact and y.exact:
        return x
    return Bounded(x.v.max(y.v), x.w.max(y.w), x.arithmetic)


def _function(name: str, evaluate: Callable[[Arb], Arb]) -> Callable[[Bounded], Bounded]:
    def rule(x: Bounded) -> Bounded:
        arithmetic = x.arithmetic
        a = arithmetic.read(x.w) if arithmetic.reads else x.w
        v = evaluate(x.v)
        is_exact = a is x.v
        y = v if is_exact else evaluate(a)
        return Bounded(v, arithmetic.applied(name, y, a, is_exact), arithmetic)

    return rule


for _rule in (scalar.exp, scalar.log, scalar.sqrt, scalar.tanh, scalar.cos, scalar.sin):
    _rule.register(Bounded)(_function(_rule.name, getattr(flint.arb, _rule.name)))
scalar.pi_like.register(Bounded)(lambda x: Bounded(PI, x.arithmetic.rounded(PI), x.arithmetic))


@scalar.square.register(Bounded)
def _square(x: Bounded) -> Bounded:
    arithmetic = x.arithmetic
    a = arithmetic.read(x.w) if arithmetic.reads else x.w
    v = square_of(x.v)
    w = arithmetic.settled(v) if a is x.v else arithmetic.rounded(square_of(a))
    return Bounded(v, w, arithmetic)


@scalar.absolute.register(Bounded)
def _absolute(x: Bounded) -> Bounded:
    v = abs(x.v)
    return Bounded(v, v if x.exact else abs(x.w), x.arithmetic)


scalar.zero_like.register(Bounded)(lambda x: constant(x.arithmetic, 0))
scalar.lift.register(Bounded)(lambda like, value: constant(like.arithmetic, value))


def _all_bounded(*rows: Sequence[Any]) -> tuple[Arithmetic, list[list[Bounded]]]:
    """Turn the constants among the terms into Bounded; at least one term is one already."""
    one = next(term for row in rows for term in row if type(term) is Bounded)
    return one.arithmetic, [[_meet(one, term) for term in row] for row in rows]


@scalar.sum_terms.register(Bounded)
def _sum_terms(terms: Sequence[Any]) -> Bounded:
    arithmetic, (row,) = _all_bounded(terms)
    values = [term.v for term in row]
    results = [term.w for term in row]
    if arithmetic.reads:
        results = [arithmetic.read(w) for w in results]
    count = len(row) - sum(map(flint.arb.is_zero, results))
    if count <= 1:
        return next((t for t, w in zip(row, results, strict=True) if not w.is_zero()), row[0])
    return _total(arithmetic, values, results, count, False)


@scalar.dot_terms.register(Bounded)
def _dot_terms(left: Sequence[Any], right: Sequence[Any]) -> Bounded:
    arithmetic, (one, two) = _all_bounded(left, right)
    values = list(map(operator.mul, [a.v for a in one], [b.v for b in two]))
    a, b = [term.w for term in one], [term.w for term in two]
    if arithmetic.reads:
        a, b = list(map(arithmetic.read, a)), list(map(arithmetic.read, b))
    if arithmetic.dot_reader is not None:
        a, b = list(map(arithmetic.dot_reader, a)), list(map(arithmetic.dot_reader, b))
    same = all(t.v is w for t, w in zip(one + two, a + b, strict=True))
    results = values if same else list(map(operator.mul, a, b))
    count = len(values) - sum(map(flint.arb.is_zero, results))
    if count == 0:
        return constant(arithmetic, 0)
    return _total(arithmetic, values, results, count, True)


def _total(
    arithmetic: Arithmetic, values: list[Arb], results: list[Arb], count: int, products: bool
) -> Bounded:
    v = sum(values, ZERO)
    same = all(map(operator.is_, values, results))
    w = arithmetic.summed(results, count, same, products)
    return Bounded(v, v if w.is_exact() and same else w, arithmetic)


@scalar.max_terms.register(Bounded)
def _max_terms(terms: Sequence[Any]) -> Bounded:
    _, (row,) = _all_bounded(terms)
    largest = row[0]
    for term in row[1:]:
        largest = _maximum(largest, term)
    return largest
