"""The regimes of a group take turns in the rows of a design.

A regime is an input distribution. A design treats some regimes as one level, which is called a
group. Every row with a group gets one regime of it. All regimes of a group come before one of them
comes again. Among the remaining ones, a regime that has not met a row of this length comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from equivalence.cases.covering import Levels
from equivalence.cases.domains import GROUPS
from equivalence.cases.fills.entries import source
from equivalence.cases.strata.classes import size_class

LENGTHS = ("extent", "columns", "classes")
"""The factors that set the length of a row. Along it the place of a number may matter."""

Owners = tuple[int, ...]
"""The dtypes that have a row of the design, by their places."""


def with_regimes(
    rows: Sequence[Levels],
    owners: Sequence[Owners],
    cost: Callable[[Levels], float] | None = None,
) -> Iterator[tuple[dict[str, Any], Owners]]:
    """Yield the rows with a regime in place of each group. Each comes with its owners.

    With a cost, more rows follow: each regime then meets every size class of rows. The cheapest
    rows are taken for that.
    """
    turns = _Turns()
    for row, own in zip(rows, owners, strict=True):
        yield {name: turns.chosen(row, name, own) for name in row}, own
    if cost is not None:
        last = list({place: None for own in owners for place in own})
        for number, row in enumerate(turns.missing(sorted(rows, key=cost))):
            yield row, (last[number % len(last)],)


class _Turns:
    """Remembers the regimes that have come, and the lengths of rows that each has met."""

    def __init__(self) -> None:
        self._left: dict[tuple[int, str, str], tuple[int, list[str]]] = {}
        self._met: set[tuple[str, str, str, Any]] = set()

    def chosen(self, row: Levels, name: str, own: Owners) -> Any:
        """Return the level of a factor. For a group it is the next regime of the group."""
        group = _group(row, name)
        if not group:
            return row[name]
        turn, left = self._left.get((own[0], name, row[name]), (0, []))
        if not left:
            left = source(turn, f"{name} {row[name]}").sample(group, len(group))
            turn += 1
        regime = max(left, key=lambda one: len(_meetings(row, name, one) - self._met))
        self._met |= _meetings(row, name, regime)
        for place in own:
            self._left[place, name, row[name]] = turn, [one for one in left if one != regime]
        return regime

    def missing(self, rows: Sequence[Levels]) -> Iterator[dict[str, Any]]:
        """Yield copies of rows, so that each regime meets the lengths it has not met yet."""
        for row, name in product(rows, rows[0] if rows else ()):
            for regime in _group(row, name):
                if new := _meetings(row, name, regime) - self._met:
                    self._met |= new
                    others = {n: self.chosen(row, n, (-1,)) for n in row if n != name}
                    yield {n: regime if n == name else others[n] for n in row}


def _group(row: Levels, name: str) -> Sequence[str]:
    """Return the regimes of a group in a row. There are none if the level is not a group."""
    return GROUPS.get(row[name], ()) if "regime" in name else ()


def _meetings(row: Levels, name: str, regime: str) -> set[tuple[str, str, str, Any]]:
    """Return the meetings of a regime with the lengths of a row, by their size classes."""
    lengths = ((length, row[length]) for length in LENGTHS if length in row)
    return {(name, regime, length, size_class(length, level)) for length, level in lengths}
