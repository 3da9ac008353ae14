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
from typing import Any

Factors = Mapping[str, Sequence[Any]]
"""The levels of every factor by its name."""

Levels = Mapping[str, Any]
"""One level of every factor, or of some."""

Allowed = Callable[[Levels], bool]
"""Says whether a row may be; asked of unfinished rows too, of which it refuses those that no
further level would mend."""

Rule = Callable[..., bool]
"""Says whether some levels may meet; its parameters are called like their factors."""

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
    return [row for part in stages(factors, allowed, strength) for row in part]


def stages(factors: Factors, allowed: Allowed, strength: int) -> Iterator[list[dict[str, Any]]]:
    """Yield what a design of strength 1 has, then what strength 2 adds, and so on.

    A later part is searched for only when it is asked for.
    """
    if strength < 1:
        raise ValueError(f"a covering design has strength 1 or more; got {strength}")
    search = _Search(factors, allowed)
    for together in range(1, min(strength, len(factors)) + 1):
        yield search.add(together)
    if not factors and allowed({}):
        yield [{}]


class _Search:
    """The rows that a design has so far, and how often it has used every level."""

    def __init__(self, factors: Factors, allowed: Allowed) -> None:
        """Start without a row."""
        self.names = list(factors)
        self.levels = [list(factors[name]) for name in self.names]
        self.allowed = allowed
        self.rows: list[list[int]] = []
        self.uses = [[0] * len(levels) for levels in self.levels]

    def add(self, together: int) -> list[dict[str, Any]]:
        """Add rows until all combinations of so many levels have met, and return them."""
        start = len(self.rows)
        missing = self._missing(together)
        while missing:
            wanted = next(iter(missing))
            row = self._row(wanted, missing, together)
            if row is None:
                del missing[wanted]
                continue
            self._take(row)
            for met in _combinations(row, together):
                missing.pop(met, None)
        return [self._named(dict(enumerate(row))) for row in self.rows[start:]]

    def _missing(self, together: int) -> dict[_Combination, None]:
        """List the combinations that have not met, those of the factors with most levels first."""
        order = sorted(
            combinations(range(len(self.levels)), together),
            key=lambda chosen: tuple(sorted(-len(self.levels[k]) for k in chosen)),
        )
        missing = {
            tuple(zip(chosen, levels, strict=True)): None
            for chosen in order
            for levels in product(*(range(len(self.levels[k])) for k in chosen))
        }
        for row in self.rows:
            for met in _combinations(row, together):
                missing.pop(met, None)
        return missing

    def _row(
        self, wanted: _Combination, missing: Mapping[_Combination, None], together: int
    ) -> list[int] | None:
        """Return a row that holds a combination and as many others as is easy, None if none may."""
        chosen = dict(wanted)
        if not self._may(chosen):
            return None
        open_ = [k for k in range(len(self.levels)) if k not in chosen]
        # The factors with most levels have most to meet, so they choose first.
        open_.sort(key=lambda k: -len(self.levels[k]))
        return self._filled(chosen, open_, missing, together)

    def _filled(
        self,
        chosen: dict[int, int],
        open_: Sequence[int],
        missing: Mapping[_Combination, None],
        together: int,
    ) -> list[int] | None:
        """Choose the open levels, each the one by which most meet, and step back where none may."""
        if not open_:
            return [chosen[k] for k in range(len(self.levels))]
        factor, rest = open_[0], open_[1:]
        fixed = list(combinations(sorted(chosen.items()), together - 1))

        def rank(level: int) -> tuple[int, int, int]:
            pair = (factor, level)
            meeting = sum(tuple(sorted((*others, pair))) in missing for others in fixed)
            return -meeting, self.uses[factor][level], level

        for level in sorted(range(len(self.levels[factor])), key=rank):
            chosen[factor] = level
            if self._may(chosen):
                row = self._filled(chosen, rest, missing, together)
                if row is not None:
                    return row
            del chosen[factor]
        return None

    def _may(self, chosen: Mapping[int, int]) -> bool:
        return self.allowed(self._named(chosen))

    def _named(self, chosen: Mapping[int, int]) -> dict[str, Any]:
        """Return chosen levels by the names of their factors, in the order of the factors."""
        return {self.names[k]: self.levels[k][chosen[k]] for k in sorted(chosen)}

    def _take(self, row: list[int]) -> None:
        self.rows.append(row)
        for factor, level in enumerate(row):
            self.uses[factor][level] += 1


def _combinations(row: Sequence[int], together: int) -> Iterator[_Combination]:
    """Yield what meets in a row."""
    return combinations(enumerate(row), together)
