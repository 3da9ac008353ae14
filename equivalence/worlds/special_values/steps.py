"""How special scalars enter and leave their world; their quotients, functions and maxima.

>>> from equivalence.worlds.contract import FP16, Contract
>>> line = Line(Contract("ieee", FP16, FP16))
>>> infinite, large = lifted(line, math.inf, 2.0**15)
>>> infinite + large, infinite - infinite, scalar.exp(-infinite)
({inf}, {nan}, {Bounded(0, exact)})
>>> large + large, (large + large) - large
({inf, Bounded(65536.0000000000, exact)}, {inf, Bounded(32768.0000000000, within 48)})
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import flint

import equivalence.worlds.special_values.products
import equivalence.worlds.special_values.questions
import equivalence.worlds.special_values.sums  # noqa: F401 (all that is registered comes with this)
from equivalence.worlds import bounded
from equivalence.worlds.balls import PI, Arb, square_of
from equivalence.worlds.bounded import Bounded
from equivalence.worlds.grid import ONE
from equivalence.worlds.kinds import (
    INFINITE,
    MINUS,
    NANS,
    NOT_A_NUMBER,
    PLUS,
    UNDEFINED,
    kind_of,
    opposite,
)
from equivalence.worlds.special_values.sets import (
    Line,
    SpecialValues,
    beyond,
    bounded_of,
    infinite_times,
    joined,
    met,
    pair,
    read_of,
    signs,
)
from spec import scalar


def lifted(line: Line, *values: float) -> list[SpecialValues]:
    """Take floats as the numbers that they are, NaN and the infinities among them."""
    return [
        SpecialValues(line, 0, bounded.exact(line.arithmetic, value)[0])
        if math.isfinite(value)
        else line.of(kind_of(value))
        for value in values
    ]


@scalar.divide.register(SpecialValues)
def _divide(first: Any, second: Any) -> SpecialValues:
    x, y = pair(first, second)
    line = x.line
    found = _special_quotient(line, x, y) if x.kinds | y.kinds else _finite_quotient(line, x, y)
    if y.finite is not None and not y.kinds:
        found.beside = _met_by_division(x, y) or found.beside
        found.kinds |= line.in_another_order(found.kinds, found.beside)
    return found


def _special_quotient(line: Line, x: SpecialValues, y: SpecialValues) -> SpecialValues:
    """Divide where an operand may be special: the union of the quotients of what each may be."""
    if x.lost or y.lost:
        return line.of(NOT_A_NUMBER)
    kinds = (x.kinds | y.kinds) & NANS
    if x.kinds & INFINITE and y.kinds & INFINITE:
        kinds |= UNDEFINED
    parts: list[SpecialValues] = []
    if y.finite is not None:
        kinds |= _infinite_over(x.kinds & INFINITE, y)
    if x.finite is not None and y.kinds & INFINITE:
        parts.append(line.zero)
    if x.finite is not None and y.finite is not None:
        parts.append(_finite_quotient(line, x, y))
    found = _gathered(line, kinds, parts)
    found.beside = next((part.beside for part in parts if part.beside), ())
    return found


def _met_by_division(x: SpecialValues, y: SpecialValues) -> tuple[Arb, ...]:
    """Return the finite factors that infinities have met after a division by finite numbers."""
    if not x.kinds & INFINITE:
        return x.beside
    w = read_of(y)
    return met(x, ONE / w if w.is_finite() and not w.contains(0) else None)


def _gathered(line: Line, kinds: int, parts: Sequence[SpecialValues]) -> SpecialValues:
    """Return the union of kinds and of sets; the exact value is that of the last of these."""
    found: SpecialValues | None = None
    for part in reversed(parts):
        found = part if found is None else joined(found, part)
    return (
        line.of(kinds) if found is None else SpecialValues(line, kinds | found.kinds, found.finite)
    )


def _infinite_over(kinds: int, y: SpecialValues) -> int:
    """Return what infinities over finite numbers may be."""
    if not kinds:
        return 0
    found = 0
    for sign in signs(y):
        found |= INFINITE if sign == 0 else kinds if sign > 0 else opposite(kinds)
    steps = y.line.steps
    if steps.division.reciprocal:
        # The reciprocal of what is very large may be flushed, and infinity times 0 is no number.
        largest: Arb = flint.arb(1) / steps.plain[0].format.min_normal
        found |= UNDEFINED if beyond(read_of(y), largest) else 0
    return found


def _finite_quotient(line: Line, x: SpecialValues, y: SpecialValues) -> SpecialValues:
    """Divide finite numbers; of a zero divisor the sign is not known."""
    a, b, kinds = bounded_of(x), read_of(y), 0
    if not b.is_finite():
        return line.anything()
    if b.contains(0):
        kinds = sum({UNDEFINED if sign == 0 else INFINITE for sign in signs(x)})
        finite = None if b.is_zero() else line.unknown()
        return SpecialValues(line, kinds, finite, (a.w,))
    found = line.settled(scalar.divide(a, bounded_of(y)), lambda: read_of(x) / b)
    if line.steps.division.reciprocal:
        inverse = SpecialValues(line, beyond(ONE / b, line.steps.largest), None)
        kinds = infinite_times(inverse.kinds, SpecialValues(line, 0, a))
    return SpecialValues(line, kinds | found.kinds, found.finite)


@scalar.maximum.register(SpecialValues)
def _maximum(first: Any, second: Any) -> SpecialValues:
    x, y = pair(first, second)
    line, either = x.line, x.kinds | y.kinds
    if not either:
        a, b = bounded_of(x), bounded_of(y)
        largest = scalar.maximum(a, b)
        # Itself: whoever asks which one was largest recognizes it.
        return x if largest is a else y if largest is b else SpecialValues(line, 0, largest)
    if x.lost or (x.finite is None and x.kinds == PLUS and not y.kinds & NANS):
        return x
    kinds = either & (NANS | PLUS) | (x.kinds & y.kinds & MINUS)
    parts = [SpecialValues(line, 0, x.finite)] if x.finite is not None and y.kinds & MINUS else []
    if y.finite is not None and x.kinds & MINUS:
        parts.append(SpecialValues(line, 0, y.finite))
    if x.finite is not None and y.finite is not None:
        parts.append(SpecialValues(line, 0, scalar.maximum(x.finite, y.finite)))
    return _gathered(line, kinds, parts)


@scalar.max_terms.register(SpecialValues)
def _max_terms(terms: Sequence[Any]) -> SpecialValues:
    largest: SpecialValues = next(
        term for term in terms if type(term) is SpecialValues
    ).line.special(terms[0])
    for term in terms[1:]:
        largest = _maximum(largest, term)
    return largest


def _function(
    function: scalar.Unary, ball: Callable[[Arb], Arb], at_plus: Any, at_minus: Any
) -> Callable[[SpecialValues], SpecialValues]:
    """Return the rule of a function that is defined everywhere, with its limits."""

    def limit(line: Line, at: Any) -> SpecialValues:
        return line.of(at[0]) if isinstance(at, tuple) else line.special(at)

    def of_finite(x: SpecialValues) -> SpecialValues:
        return x.line.settled(function(bounded_of(x)), lambda: ball(read_of(x)))

    def rule(x: SpecialValues) -> SpecialValues:
        if not x.kinds:
            return of_finite(x)
        ends = ((PLUS, at_plus), (MINUS, at_minus))
        parts = [limit(x.line, at) for kind, at in ends if x.kinds & kind]
        if x.finite is not None:
            parts.append(of_finite(x))
        return _gathered(x.line, x.kinds & NANS, parts)

    return rule


FAR: Arb = flint.arb(2.0**20)
"""An argument whose exponential leaves every format; of larger ones arb tells nothing."""


def _exp(x: Arb) -> Arb:
    near: Arb = x.min(FAR).max(-FAR)
    return near.exp()


def _expm1(x: Arb) -> Arb:
    near: Arb = x.min(FAR).max(-FAR)
    return near.expm1()


for _named, _ball, _plus, _minus in (
    (scalar.exp, _exp, (PLUS,), 0),
    (scalar.expm1, _expm1, (PLUS,), -1),
    (scalar.erf, flint.arb.erf, 1, -1),
    (scalar.tanh, flint.arb.tanh, 1, -1),
    (scalar.cos, flint.arb.cos, (UNDEFINED,), (UNDEFINED,)),
    (scalar.sin, flint.arb.sin, (UNDEFINED,), (UNDEFINED,)),
):
    _named.register(SpecialValues)(_function(_named, _ball, _plus, _minus))
scalar.square.register(SpecialValues)(_function(scalar.square, square_of, (PLUS,), (PLUS,)))
scalar.absolute.register(SpecialValues)(_function(scalar.absolute, abs, (PLUS,), (PLUS,)))


def _from_zero(
    function: scalar.Unary, at_end: int, end: int = 0
) -> Callable[[SpecialValues], SpecialValues]:
    """Return the rule of a function of numbers beyond an end, 0: at_end is its kind there, if any.

    Of numbers that may lie outside its domain too, the finite results stay unknown.
    """

    def rule(x: SpecialValues) -> SpecialValues:
        line = x.line
        kinds = x.kinds & (NANS | PLUS) | (UNDEFINED if x.kinds & MINUS else 0)
        if x.finite is None:
            return line.of(kinds)
        found = set(signs(x, end))
        kinds |= UNDEFINED if -1 in found else 0
        kinds |= at_end if 0 in found else 0
        if found == {-1} or (found == {0} and at_end):
            return line.of(kinds)
        inside = function(x.finite) if -1 not in found and not (at_end and 0 in found) else None
        return SpecialValues(line, kinds, line.unknown() if inside is None else inside)

    return rule


scalar.log.register(SpecialValues)(_from_zero(scalar.log, MINUS))
scalar.log1p.register(SpecialValues)(_from_zero(scalar.log1p, MINUS, -1))
scalar.sqrt.register(SpecialValues)(_from_zero(scalar.sqrt, 0))


@scalar.pi_like.register(SpecialValues)
def _pi_like(x: SpecialValues) -> SpecialValues:
    return SpecialValues(x.line, 0, Bounded(PI, x.arithmetic.rounded(PI), x.arithmetic))
