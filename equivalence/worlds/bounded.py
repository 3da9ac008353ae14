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
  adding the constant 0. x - x of one number is 0, as are 0 x and functions whose exact result is 0
  or 1; but of a stable contract (x - x) r may be x r - x r, each rounded, where r is not exact.
* Of a stable contract an input of 0 is as good as any other number: adding it is a step. Of two
  branches of several steps, the one that is chosen counts as many as the other.
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

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import flint

from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import (
    PI,
    UNKNOWN,
    Arb,
    Truth,
    certainly_equal,
    certainly_less,
    square_of,
)
from equivalence.worlds.grid import ONE, ZERO
from equivalence.worlds.number import (
    GENERIC,
    Bounded,
    Terms,
    always_zero,
    constant,
    distributed,
    exact,
    meet,
    moved,
    opened,
    read,
    rounded_once,
    scaled,
    within,
    zero_of,
)
from equivalence.worlds.past import either, magnitude, never_negative, stored
from equivalence.worlds.stable.choices import NO, YES, Fork, Settled, either_branch
from equivalence.worlds.steps import FUNCTIONS
from spec import scalar

__all__ = ["Bounded", "Fork", "constant", "either", "exact", "magnitude", "stored", "within"]


def _pair(x: Any, y: Any) -> tuple[Bounded, Bounded]:
    return (x, meet(x, y)) if type(x) is Bounded else (meet(y, x), y)


def _question(
    ask: Callable[[Arb, Arb], Truth], same: bool
) -> Callable[[Any, Any], bool | Settled | Fork]:
    def rule(x: Any, y: Any) -> bool | Settled | Fork:
        if x is y and not x.unconstrained:
            return same  # one computed number, whatever it is
        x, y = _pair(x, y)
        arithmetic = x.arithmetic
        if arithmetic.reads:
            x, y = read(x), read(y)
        a, b = x.ball, y.ball
        certain = a.is_finite() and b.is_finite()
        answer = ask(a, b) if certain else UNKNOWN
        if isinstance(answer, bool):
            return answer if not arithmetic.stable else YES if answer else NO
        return Fork(ask(x.v, y.v), not certain, arithmetic)

    return rule


scalar.less.register(Bounded)(_question(certainly_less, same=False))
scalar.equal.register(Bounded)(_question(certainly_equal, same=True))
scalar.is_zero.register(Bounded)(lambda x, _: always_zero(x))


def _largest(a: Arb, b: Arb) -> Arb:
    return a.max(b)


@scalar.divide.register(Bounded)
def _divide(x: Any, y: Any) -> Bounded:
    x, y = _pair(x, y)
    arithmetic = x.arithmetic
    if arithmetic.reads:
        x, y = read(x), read(y)
    v = x.v / y.v
    x = distributed(x, y)
    if always_zero(x):
        inside = (x.v / y.ball).is_finite()
        return zero_of(y, (x, y, True)) if inside else opened(v, arithmetic)
    depth = max(x.depth, y.depth)
    if not y.depth and arithmetic.divides_exactly(y.v):
        return scaled(Bounded(ONE / y.v, y.w, arithmetic), x)
    last = None if x.last is None and y.last is None else (x, y, True)
    w = arithmetic.divided(x.w, y.w, None)
    made = (x, y, True)
    if depth:
        return Bounded(v, w, arithmetic, None, depth + 1, last, None, made)
    strict = arithmetic.divided(x.v, y.v, v)
    return Bounded(v, w, arithmetic, strict, 1, last, None, made)


@scalar.maximum.register(Bounded)
def _maximum(first: Any, second: Any) -> Bounded:
    x, y = one, two = _pair(first, second)
    if x.arithmetic.reads:
        x, y = read(x), read(y)
    if certainly_less(x.ball, y.ball) is True and certainly_less(x.v, y.v) is True:
        return two  # itself: whoever asks which one was largest recognizes it
    if certainly_less(y.ball, x.ball) is True and certainly_less(y.v, x.v) is True:
        return one
    if x.exact and y.exact:
        return one
    return either_branch(x.v.max(y.v), x, y, _largest)


def _function(name: str, evaluate: Callable[[Arb], Arb]) -> Callable[[Bounded], Bounded]:
    def rule(x: Bounded) -> Bounded:
        arithmetic = x.arithmetic
        if arithmetic.reads:
            x = read(x)
        if name == "sqrt" and never_negative(x):
            x = Bounded(x.v, x.w.nonnegative_part(), arithmetic, x.strict, x.depth)
        v = evaluate(x.v)
        exactly = (not x.depth or always_zero(x)) and arithmetic.applied_exactly(name, v)
        if exactly and (v.is_zero() or v == ONE):
            return constant(arithmetic, 0 if v.is_zero() else 1)
        depth = x.depth + (1 if exactly else arithmetic.steps.functions[name].roundings)
        w = arithmetic.applied(name, evaluate(x.w) if x.depth else v, x.w)
        strict = None if depth >= GENERIC else v if exactly else w
        return Bounded(v, w, arithmetic, strict, depth)

    return rule


for _name in FUNCTIONS:
    getattr(scalar, _name).register(Bounded)(_function(_name, getattr(flint.arb, _name)))


@scalar.pi_like.register(Bounded)
def _pi_like(x: Bounded) -> Bounded:
    return within(PI, x.arithmetic.rounded(PI), x.arithmetic)


@scalar.square.register(Bounded)
def _square(x: Bounded) -> Bounded:
    arithmetic = x.arithmetic
    if arithmetic.reads:
        x = read(x)
    if always_zero(x):
        return x
    v = square_of(x.v)
    last = None if x.last is None else (x, x)
    if not x.depth:
        return rounded_once(v, arithmetic, last, (x, x))
    w = arithmetic.rounded(square_of(x.w))
    return Bounded(v, w, arithmetic, None, x.depth + 1, last, None, (x, x))


@scalar.absolute.register(Bounded)
def _absolute(x: Bounded) -> Bounded:
    return moved(x, abs(x.v), abs, x.last)


scalar.zero_like.register(Bounded)(lambda x: constant(x.arithmetic, 0))
scalar.lift.register(Bounded)(lambda like, value: constant(like.arithmetic, value))


def _all_bounded(*rows: Sequence[Any]) -> tuple[Arithmetic, list[list[Bounded]]]:
    """Turn the constants among the terms into Bounded; at least one term is one already."""
    one = next(term for row in rows for term in row if type(term) is Bounded)
    return one.arithmetic, [
        [term if type(term) is Bounded else meet(one, term) for term in row] for row in rows
    ]


@scalar.sum_terms.register(Bounded)
def _sum_terms(terms: Sequence[Any]) -> Bounded:
    arithmetic, (row,) = _all_bounded(terms)
    if arithmetic.reads:
        row = list(map(read, row))
    some = [term for term in row if term.depth or not term.v.is_zero()]
    if len(some) <= 1:
        return some[0] if some else row[0]
    depth = 1 + max([term.depth for term in row])
    values = [term.v for term in row]
    results = values if depth == 1 else [term.w for term in row]
    return _total(arithmetic, values, results, len(some), depth, False)


@scalar.dot_terms.register(Bounded)
def _dot_terms(left: Sequence[Any], right: Sequence[Any]) -> Bounded:
    arithmetic, (one, two) = _all_bounded(left, right)
    if arithmetic.reads:
        one, two = list(map(read, one)), list(map(read, two))
    depth = 1 + max([term.depth for term in one + two])
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
