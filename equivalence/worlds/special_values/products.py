"""Products of several special scalars, whose factors meet in any order.

A product of some of them may overflow, to an infinity that stays or meets a 0; and where one is
infinite, others may underflow before they meet it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from equivalence.worlds.balls import Arb
from equivalence.worlds.bounded import Bounded
from equivalence.worlds.grid import ONE, ZERO
from equivalence.worlds.kinds import INFINITE, MINUS, PLUS, UNDEFINED
from equivalence.worlds.special_values.sets import (
    Line,
    SpecialValues,
    added,
    beyond,
    multiplied,
    read_of,
)
from spec import scalar


@scalar.products.register(SpecialValues)
def _products(terms: Sequence[Any]) -> list[SpecialValues]:
    line = next(term for term in terms if type(term) is SpecialValues).line
    row = [line.special(term) for term in terms]
    whole = [*takewhile(lambda part: part is not None, (x.finite for x in row))]
    parts: Any = scalar.products(whole) if whole else []
    found, met = [row[0]], _Met(line)
    met.take(row[0])
    for k, x in enumerate(row[1:], 1):
        met.take(x)
        found.append(met.product(multiplied(found[-1], x), parts[k] if k < len(whole) else None))
    return found


class _Met:
    """The finite factors that a product has taken."""

    def __init__(self, line: Line) -> None:
        """Start with none."""
        self.line = line
        self.ball = self.large = self.small = ONE
        self.count = 0
        self.infinite = False

    def take(self, x: SpecialValues) -> None:
        """Multiply the finite part, if there is any."""
        if x.finite is None:
            return
        ball = read_of(x)
        self.ball = self.ball * ball
        self.large = self.large * abs(ball).max(ONE)
        self.small = self.small * abs(ball).min(ONE)
        self.count += 1

    def carried(self, x: SpecialValues, sums: Arb, finite: Bounded | None) -> SpecialValues:
        """Add to what one order of a recurrence gives what the others may."""
        line = self.line
        if x.lost:
            return x
        growth: Arb = (ONE + 2 * line.steps.unit) ** (2 * self.count)
        over = not self.large * sums.max(ONE) * growth <= line.steps.largest
        # An infinite factor, multiplied into a sum, may make opposite infinities of its terms.
        lost = self.infinite or (x.kinds & INFINITE and line.arithmetic.vanishes(self.small))
        kinds = x.kinds | (INFINITE | UNDEFINED if over else UNDEFINED if lost else 0)
        if finite is None or over:
            return SpecialValues(line, kinds, line.unknown() if over else x.finite)
        return SpecialValues(line, kinds, finite)

    def product(self, x: SpecialValues, finite: Bounded | None) -> SpecialValues:
        """Add to what one order gives what the others may; finite is the finite part of all."""
        line = self.line
        if x.lost:
            return x
        growth: Arb = (ONE + 2 * line.steps.unit) ** self.count
        over = beyond(self.large * growth, line.steps.largest)
        kinds = x.kinds
        if over:
            kinds |= (0 if self.ball < 0 else PLUS) | (0 if self.ball > 0 else MINUS)
        if kinds & INFINITE and line.arithmetic.vanishes(self.small):
            kinds |= UNDEFINED
        if finite is None:
            return SpecialValues(line, kinds, x.finite, x.beside)
        if finite.unconstrained and not over:
            found = line.settled(finite, lambda: self.ball)
            return SpecialValues(line, kinds | found.kinds, found.finite, x.beside)
        return SpecialValues(line, kinds, finite, x.beside)


@scalar.recurrences.register(SpecialValues)
def _recurrences(terms: Sequence[Any], factors: Sequence[Any]) -> list[SpecialValues]:
    line = next(x for x in (*terms, *factors) if type(x) is SpecialValues).line
    row, by = ([line.special(x) for x in side] for side in (terms, factors))
    pairs = [x.finite for x in row], [x.finite for x in by]
    whole = next((k for k, x in enumerate(pairs[0]) if x is None), len(row))
    whole = min(whole, next((k + 1 for k, x in enumerate(pairs[1]) if x is None), len(row)))
    parts: Any = []
    if whole:
        parts = scalar.recurrences(pairs[0][:whole], pairs[1][: whole - 1])
    found, met, sums = [row[0]], _Met(line), abs(read_of(row[0])) if row[0].finite else ZERO
    for k, (term, factor) in enumerate(zip(row[1:], by, strict=True), 1):
        met.take(factor)
        met.infinite |= bool(factor.kinds & INFINITE)
        sums = sums + (abs(read_of(term)) if term.finite else ZERO)
        one = added(multiplied(found[-1], factor), term)
        found.append(met.carried(one, sums, parts[k] if k < whole else None))
    return found
