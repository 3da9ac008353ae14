"""Covering designs: few rows in which every pair of levels meets that is allowed to.

A factor is a name with its levels, the plainest first.  A design of strength t holds, for every t
factors, every combination of their levels that some allowed row has; it starts with the design of
strength t - 1, so that a prefix covers the single levels.  The rows are found greedily and without
chance: the same factors always give the same rows.

>>> factors = {"size": (1, 33), "layout": ("plain", "strided"), "eps": (0, 1)}
>>> for row in covering(factors, anything, 2):
...     print(*row.values())
1 strided 0
33 plain 1
1 plain 0
33 strided 1
1 strided 1
33 plain 0
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from statistics import fmean
from typing import Any, TypeVar

Factors = Mapping[str, Sequence[Any]]
"""The levels of every factor by its name."""

Levels = Mapping[str, Any]
"""One level of every factor, or of some."""

Allowed = Callable[[Levels], bool]
"""Says whether a row may be; asked of unfinished rows too, of which it refuses those that no
further level would mend."""

Rule = Callable[..., bool]
"""Says whether some levels may meet; its parameters are called like their factors."""

SINGLES, PAIRS, TRIPLES = 1, 2, 3
"""Strengths: how many levels meet everywhere in a design."""

STEP = 3
"""How far the levels of a factor are shifted against those of the one before, where all tie."""

TURN = 24
"""How many blocks are compared with each other, so that a search stays short."""

OFTEN = 8
"""How many rows have a level for which others of its class may stand in pairs."""

Dealt = TypeVar("Dealt")

_Combination = tuple[tuple[int, int], ...]
"""Some factors with a level of each, as their positions."""


def anything(levels: Levels) -> bool:
    """Allow every row."""
    return True


def by_rules(*rules: Rule) -> Allowed:
    """Return what allows the rows that break no rule, each asked when its factors are all there.

    >>> def no_plain_seven(size, layout):
    ...     return not (size == 7 and layout == "plain")
    >>> allowed = by_rules(no_plain_seven)
    >>> allowed({"size": 7}), allowed({"size": 7, "layout": "plain"})
    (True, False)
    """
    asked = [(rule, tuple(inspect.signature(rule).parameters)) for rule in rules]

    def allowed(levels: Levels) -> bool:
        for rule, names in asked:
            try:
                given = [levels[name] for name in names]
            except KeyError:
                continue  # it is asked when they are all there
            if not rule(*given):
                return False
        return True

    return allowed


def covering(factors: Factors, allowed: Allowed, strength: int) -> list[dict[str, Any]]:
    """Return rows in which all combinations of so many levels meet that an allowed row has."""
    return Design(factors, allowed).rows(strength)


def owners(number: int, everywhere: int, places: int) -> tuple[int, ...]:
    """Return which of several places have a row of a design: all the first ones, else one in turn.

    So every level meets every place, and every combination meets in one of them.
    """
    return tuple(range(places)) if number < everywhere else (number % places,)


def dealt(rows: Sequence[Dealt], everywhere: int, place: int, places: int) -> list[Dealt]:
    """Return the rows of a design that one of several places has."""
    return [row for k, row in enumerate(rows) if place in owners(k, everywhere, places)]


class Design:
    """A design that grows with the strength that is asked of it, and keeps what it has found.

    Of several kinds of allowed rows the first is preferred: a combination meets in a row of a later
    kind only if no row of an earlier one has it.
    From triples on, only those factors are combined whose levels have few combinations, if it is
    said how many are few.
    Blocks are levels of the first factors that are chosen at once, since rules bind them closely;
    a row has the levels of one of them, and all of them are of the same factors. Of blocks those
    are taken by which most meets for what a row with them costs.
    Levels of a block's factor may be alike: each of them is met, and from pairs on one stands for
    all of its class, whichever was met least.
    """

    def __init__(
        self,
        factors: Factors,
        *allowed: Allowed,
        few: int | None = None,
        blocks: Sequence[Levels] = ({},),
        cost: Callable[[Levels], float] = lambda block: 1.0,
        alike: Callable[[str, Any], Any] = lambda name, level: level,
    ) -> None:
        """Start without a row."""
        self._names = list(factors)
        self._levels = [list(factors[name]) for name in self._names]
        self._allowed = allowed
        self._few = few
        self._blocks = [
            {k: self._levels[k].index(block[n]) for k, n in enumerate(self._names) if n in block}
            for block in blocks
        ]
        costs = [cost(block) for block in blocks]
        classes = (
            [alike(name, level) for level in levels]
            for name, levels in zip(self._names, self._levels, strict=True)
        )
        self._first = [[own.index(one) for one in own] for own in classes]
        self._classed = {k for k, own in enumerate(self._first) if len(set(own)) < len(own)}
        self._holding: dict[tuple[int, int], list[dict[int, int]]] = {}
        for block in self._blocks:
            for k, level in block.items():
                self._holding.setdefault((k, self._first[k][level]), []).append(block)
        self._bound = {k for k, _ in self._holding}
        spent: dict[_Combination, list[float]] = {}
        for block, price in zip(self._blocks, costs, strict=True):
            spent.setdefault(self._class(block), []).append(price)
        self._costs = {own: fmean(prices) for own, prices in spent.items()}
        self._rows: list[list[int]] = []
        self._ends: list[int] = []
        self._impossible: list[set[_Combination]] = [set() for _ in allowed]
        self._uses = [[0] * len(levels) for levels in self._levels]

    def rows(self, strength: int) -> list[dict[str, Any]]:
        """Return the rows of the design of some strength."""
        if strength < 1:
            raise ValueError(f"a covering design has strength 1 or more; got {strength}")
        if not self._names:
            return [{}] if any(allowed({}) for allowed in self._allowed) else []
        while len(self._ends) < strength:
            self._grow(len(self._ends) + 1)
            self._ends.append(len(self._rows))
        return [self._named(dict(enumerate(row))) for row in self._rows[: self._ends[strength - 1]]]

    def _grow(self, together: int) -> None:
        """Add rows until all combinations of so many levels have met."""
        missing = self._missing(together)
        for allowed, impossible in zip(self._allowed, self._impossible, strict=True):
            left: dict[_Combination, None] = {}
            while missing:
                wanted = next(iter(missing))
                part = any(met in impossible for met in self._parts(wanted))
                row = None if part else self._row(wanted, missing, together, allowed)
                if row is None:
                    impossible.add(wanted)
                    left[wanted] = missing.pop(wanted)
                    continue
                self._take(row)
                for met in self._meeting(enumerate(row), together):
                    missing.pop(met, None)
            missing = left
        if together == PAIRS:
            self._meet_often()

    def _meet_often(self) -> None:
        """Add rows until each level that has others like it is met a few times, if it may be."""
        for k in sorted(self._classed):
            for level in range(len(self._levels[k])):
                rows = (self._row(((k, level),), {}, SINGLES, allowed) for allowed in self._allowed)
                while self._uses[k][level] < OFTEN and (row := next(filter(None, rows), None)):
                    self._take(row)
                    rows = (self._row(((k, level),), {}, SINGLES, a) for a in self._allowed)

    def _class(self, block: Mapping[int, int]) -> _Combination:
        """Return what is common to the blocks that are alike; they cost the same, on average."""
        return tuple(self._met(pair, PAIRS) for pair in block.items())

    def _met(self, pair: tuple[int, int], together: int) -> tuple[int, int]:
        """Return a factor's level as it counts where so many meet: alone, or by its class."""
        k, level = pair
        return pair if together == SINGLES else (k, self._first[k][level])

    def _meeting(self, pairs: Iterable[tuple[int, int]], together: int) -> Iterator[_Combination]:
        """Yield what meets among levels of different factors, which are in order."""
        return combinations([self._met(pair, together) for pair in pairs], together)

    def _parts(self, wanted: _Combination) -> Iterator[_Combination]:
        """Yield what is smaller by one; a level that is impossible says nothing of its class."""
        for part in combinations(wanted, len(wanted) - 1):
            if len(part) > 1 or all(self._first[k].count(level) == 1 for k, level in part):
                yield part

    def _meant(self, wanted: _Combination) -> Iterator[dict[int, int]]:
        """Yield the levels for which those of a combination stand."""
        if len(wanted) == SINGLES:
            yield dict(wanted)
            return
        own = [[n for n, c in enumerate(self._first[k]) if c == level] for k, level in wanted]
        for levels in product(*own):
            yield dict(zip((k for k, _ in wanted), levels, strict=True))

    def _missing(self, together: int) -> dict[_Combination, None]:
        """List the combinations that have not met, those of the factors with most levels first."""
        counts = [len(levels) for levels in self._levels]
        among = [
            chosen
            for chosen in combinations(range(len(counts)), together)
            if together < 3 or self._few is None or prod(counts[k] for k in chosen) <= self._few
        ]
        among.sort(key=lambda chosen: tuple(sorted(-counts[k] for k in chosen)))
        missing = {
            met: None
            for chosen in among
            for levels in product(*(range(counts[k]) for k in chosen))
            for met in self._meeting(zip(chosen, levels, strict=True), together)
        }
        for row in self._rows:
            for met in self._meeting(enumerate(row), together):
                missing.pop(met, None)
        return missing

    def _row(
        self,
        wanted: _Combination,
        missing: Mapping[_Combination, None],
        together: int,
        allowed: Allowed,
    ) -> list[int] | None:
        """Return a row that holds a combination and as many others as is easy, None if none may."""
        if not any(allowed(self._named(meant)) for meant in self._meant(wanted)):
            return None
        for block in self._fitting(wanted, missing, together):
            chosen = {**dict(wanted), **block}
            if not allowed(self._named(chosen)):
                continue
            open_ = [k for k in range(len(self._levels)) if k not in chosen]
            row = self._filled(chosen, open_, missing, together, allowed)
            if row is not None:
                return row
        return None

    def _fitting(
        self, wanted: _Combination, missing: Mapping[_Combination, None], together: int
    ) -> list[dict[int, int]]:
        """Return the blocks that hold what is wanted, of those in turn the one that adds most."""
        bound = [pair for pair in wanted if pair[0] in self._bound]
        fitting = self._blocks
        if bound:
            fitting = self._holding.get(self._met(bound[0], PAIRS), [])
        for k, level in bound:
            fitting = [b for b in fitting if self._met((k, b[k]), together) == (k, level)]
        # Neighbours are alike, so those are compared that lie far from each other.
        turn, apart = len(self._rows), max(len(fitting) // TURN, 1)
        fitting = [b for k in range(apart) for b in fitting[(turn + k) % apart :: apart]]

        def rank(block: dict[int, int]) -> tuple[float, int, int]:
            levels = sorted({**dict(wanted), **block}.items())
            meeting = 1 + sum(met in missing for met in self._meeting(levels, together))
            worth = meeting / self._costs[self._class(block)]
            uses = {k: self._uses[k][level] for k, level in block.items()}
            # Levels that are alike have no other claim to be met than that they were met least.
            return -worth, sum(uses[k] for k in uses if k in self._classed), sum(uses.values())

        return sorted(fitting[:TURN], key=rank) + fitting[TURN:]

    def _filled(
        self,
        chosen: dict[int, int],
        open_: Sequence[int],
        missing: Mapping[_Combination, None],
        together: int,
        allowed: Allowed,
    ) -> list[int] | None:
        """Choose the open levels, each the one by which most meet, and step back where none may."""
        if not open_:
            return [chosen[k] for k in range(len(self._levels))]
        factor, rest = open_[0], open_[1:]
        count = len(self._levels[factor])
        known = [self._met(pair, together) for pair in sorted(chosen.items())]
        # A combination is in the order of its factors: some come before this one, some after.
        before = [k for k in known if k[0] < factor]
        split = [
            (first, last)
            for size in range(together)
            for first in combinations(before, size)
            for last in combinations(known[len(before) :], together - 1 - size)
        ]

        def rank(level: int) -> tuple[int, int, int]:
            pair = ((factor, level),)
            meeting = sum((first + pair + last) in missing for first, last in split)
            # Factors with the same levels must not walk through them in step.
            return -meeting, self._uses[factor][level], (level - STEP * factor) % count

        for level in sorted(range(count), key=rank):
            chosen[factor] = level
            if allowed(self._named(chosen)):
                row = self._filled(chosen, rest, missing, together, allowed)
                if row is not None:
                    return row
            del chosen[factor]
        return None

    def _named(self, chosen: Mapping[int, int]) -> dict[str, Any]:
        """Return chosen levels by the names of their factors."""
        return {self._names[k]: self._levels[k][level] for k, level in chosen.items()}

    def _take(self, row: list[int]) -> None:
        self._rows.append(row)
        for factor, level in enumerate(row):
            self._uses[factor][level] += 1
