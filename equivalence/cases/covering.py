"""Covering designs: few rows in which every pair of levels meets that is allowed to.

A factor is a name with its levels, the plainest first.  A design of strength t holds, for every t
factors, every combination of their levels that some allowed row has; it starts with the design of
strength t - 1, so that a prefix covers the single levels.  The rows are found greedily and without
chance: the same factors always give the same rows.

>>> factors = {"size": (1, 33), "layout": ("plain", "strided"), "eps": (0, 1)}
>>> for row in covering(factors, anything, 2):
...     print(*row.values())
1 plain 0
33 strided 1
1 strided 0
33 plain 1
1 plain 1
33 strided 0
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
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
        return all(
            rule(*(levels[name] for name in names))
            for rule, names in asked
            if all(name in levels for name in names)
        )

    return allowed


def covering(factors: Factors, allowed: Allowed, strength: int) -> list[dict[str, Any]]:
    """Return rows in which all combinations of so many levels meet that an allowed row has."""
    return Design(factors, allowed).rows(strength)


def dealt(rows: Sequence[Dealt], everywhere: int, place: int, places: int) -> list[Dealt]:
    """Deal the rows of a design out: one of several places has the first ones, and its share.

    So every level meets every place, and every combination meets in one of them.
    """
    return [row for k, row in enumerate(rows) if k < everywhere or k % places == place]


class Design:
    """A design that grows with the strength that is asked of it, and keeps what it has found.

    Of several kinds of allowed rows the first is preferred: a combination meets in a row of a later
    kind only if no row of an earlier one has it.
    From triples on, only those factors are combined whose levels have few combinations, if it is
    said how many are few.
    Blocks are levels of the first factors that are chosen at once, since rules bind them closely;
    a row has the levels of one of them, and all of them are of the same factors.
    """

    def __init__(
        self,
        factors: Factors,
        *allowed: Allowed,
        few: int | None = None,
        blocks: Sequence[Levels] = ({},),
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
        self._holding: dict[tuple[int, int], list[dict[int, int]]] = {}
        for block in self._blocks:
            for pair in block.items():
                self._holding.setdefault(pair, []).append(block)
        self._bound = {k for k, _ in self._holding}
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
                part = any(met in impossible for met in combinations(wanted, together - 1))
                row = None if part else self._row(wanted, missing, together, allowed)
                if row is None:
                    impossible.add(wanted)
                    left[wanted] = missing.pop(wanted)
                    continue
                self._take(row)
                for met in _combinations(row, together):
                    missing.pop(met, None)
            missing = left

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
            tuple(zip(chosen, levels, strict=True)): None
            for chosen in among
            for levels in product(*(range(counts[k]) for k in chosen))
        }
        for row in self._rows:
            for met in _combinations(row, together):
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
        if not allowed(self._named(dict(wanted))):
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
        fitting = self._holding.get(bound[0], []) if bound else self._blocks
        for k, level in bound[1:]:
            fitting = [block for block in fitting if block[k] == level]
        # Neighbours are alike, so those are compared that lie far from each other.
        turn, apart = len(self._rows), max(len(fitting) // TURN, 1)
        fitting = [b for k in range(apart) for b in fitting[(turn + k) % apart :: apart]]

        def rank(block: dict[int, int]) -> tuple[int, int]:
            levels = sorted({**dict(wanted), **block}.items())
            meeting = sum(met in missing for met in combinations(levels, together))
            return -meeting, sum(self._uses[k][level] for k, level in block.items())

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
        known = sorted(chosen.items())
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
        """Return chosen levels by the names of their factors, in the order of the factors."""
        return {self._names[k]: self._levels[k][chosen[k]] for k in sorted(chosen)}

    def _take(self, row: list[int]) -> None:
        self._rows.append(row)
        for factor, level in enumerate(row):
            self._uses[factor][level] += 1


def _combinations(row: Sequence[int], together: int) -> Iterator[_Combination]:
    """Yield what meets in a row."""
    return combinations(enumerate(row), together)
