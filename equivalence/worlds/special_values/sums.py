"""Sums of special scalars, and of their products, in every order.

>>> from equivalence.worlds.contract import FP16, Contract
>>> from equivalence.worlds.special_values.sets import Line
>>> from equivalence.worlds.special_values.steps import lifted
>>> terms = lifted(Line(Contract("stable", FP16, FP16)), 2.0**15, 2.0**15, -(2.0**15))
>>> scalar.sum_terms(terms)  # the first two alone leave the range of fp16
{inf, Bounded(32768.0000000000, exact)}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flint

from equivalence.worlds.balls import Arb
from equivalence.worlds.bounded import Bounded
from equivalence.worlds.contract import FP64
from equivalence.worlds.grid import ZERO
from equivalence.worlds.kinds import INFINITE, MINUS, NANS, NOT_A_NUMBER, PLUS, UNDEFINED
from equivalence.worlds.special_values.sets import (
    Line,
    SpecialValues,
    beyond,
    bounded_of,
    infinite_times,
    read_of,
)
from spec import scalar

Term = tuple[int, Arb | None]
"""The kinds of a term, and the ball of its finite part before any rounding, None if it has none."""


@scalar.sum_terms.register(SpecialValues)
def _sum_terms(terms: Sequence[Any]) -> SpecialValues:
    line = next(term for term in terms if type(term) is SpecialValues).line
    row = [line.special(term) for term in terms]
    every: list[Term] = [(x.kinds, None if x.finite is None else read_of(x)) for x in row]
    return _total(
        line, every, max(len(row) - 2, 0), lambda: scalar.sum_terms(list(map(bounded_of, row)))
    )


@scalar.dot_terms.register(SpecialValues)
def _dot_terms(left: Sequence[Any], right: Sequence[Any]) -> SpecialValues:
    line = next(term for term in (*left, *right) if type(term) is SpecialValues).line
    one, two = ([_factor(line.special(term)) for term in row] for row in (left, right))
    every = list(map(_product, one, two))
    return _total(
        line,
        every,
        len(every) + 2,
        lambda: scalar.dot_terms(list(map(bounded_of, one)), list(map(bounded_of, two))),
    )


def _factor(x: SpecialValues) -> SpecialValues:
    """Add the infinities that a factor may become where it is read in a narrower format."""
    narrow = x.line.steps.factors
    if narrow is None or x.finite is None or not narrow.above:
        return x
    return SpecialValues(x.line, x.kinds | beyond(x.finite.w, narrow.format.max_finite), x.finite)


def _product(x: SpecialValues, y: SpecialValues) -> Term:
    """Return a product that need not be rounded before it is added."""
    kinds = (x.kinds | y.kinds) & NANS
    if x.kinds | y.kinds:
        kinds |= infinite_times(x.kinds, y) | infinite_times(y.kinds, x)
    return kinds, None if x.finite is None or y.finite is None else read_of(x) * read_of(y)


def _total(
    line: Line, terms: Sequence[Term], roundings: int, finite: Callable[[], Bounded]
) -> SpecialValues:
    """Add terms in every order: an infinity needs one among the terms, or an overflow.

    It stays unless a term is NaN for certain, or another infinity.
    """
    if any(own == NOT_A_NUMBER and ball is None for own, ball in terms):
        return line.of(NOT_A_NUMBER)
    balls = [ball for _, ball in terms if ball is not None]
    union = 0
    for own, _ in terms:
        union |= own
    growth = _growth(line, roundings)
    reached = _reached(line, balls, growth)
    found = (union | reached) & INFINITE
    kinds = union & NANS
    for kind in (PLUS, MINUS):
        stays = all(own & kind or ball is not None for own, ball in terms)
        kinds |= kind if found & kind and stays else 0
    if found == INFINITE and (reached or _opposed([own for own, _ in terms])):
        kinds |= UNDEFINED
    if len(balls) < len(terms):
        return line.of(kinds)
    total = finite()
    if total.unconstrained and kinds:
        missed = sum(map(abs, balls), ZERO) * (growth - 1)
        if sum(balls, ZERO).abs_lower() - missed > FP64.max_finite:
            return line.of(kinds)
    return SpecialValues(line, kinds, total)


def _opposed(every: Sequence[int]) -> bool:
    """Say whether two of the terms may be opposite infinities."""
    plus = [k for k, kinds in enumerate(every) if kinds & PLUS]
    minus = [k for k, kinds in enumerate(every) if kinds & MINUS]
    return bool(plus and minus) and len({*plus, *minus}) > 1


def _growth(line: Line, roundings: int) -> Arb:
    """Return the factor by which so many roundings may enlarge a sum of numbers of one sign."""
    growth: Arb = flint.arb(1 + line.steps.enlarging) ** roundings
    return growth


def _reached(line: Line, balls: Sequence[Arb], growth: Arb) -> int:
    """Say towards which sides partial sums may overflow."""
    if not beyond(sum(map(abs, balls), ZERO) * growth, line.steps.largest_sum):
        return 0  # not even if all terms had one sign
    kinds = 0
    for kind, sign in ((PLUS, 1), (MINUS, -1)):
        size = ZERO
        for ball in balls:
            size = size + (ball * sign).max(ZERO)
        kinds |= kind if beyond(size * growth, line.steps.largest_sum) & PLUS else 0
    return kinds
