"""Proposed findings: narrow tables that would declare what failed, ready to paste.

Their reasons are left to an author. Where all known findings of the same kind give one reason, the
proposal gives it as well.
"""

from __future__ import annotations

import glob
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from equivalence.budgets.findings import ANYWHERE, Finding
from equivalence.budgets.outcome import Outcome, Over
from equivalence.runs.kinds import Case, Kind
from equivalence.runs.results import Row

Group = tuple[str, str, str, bool]
"""Results, what their wrong elements are and should be, and whether their budget is 0."""

Measure = Callable[[Case], Outcome]

LONGEST = 60.0
"""For how many seconds the case of a finding is made smaller."""


@dataclass(frozen=True, slots=True)
class Author:
    """Writes the tables of one row of a backend, whose findings are known."""

    backend: str
    row: Row
    findings: Sequence[Finding]

    def edge(self, edge: str, gave: str) -> str:
        """Return the finding that an edge gives this wrong result."""
        return self.table("edge", {"dtype": self.row.dtype, "edge": edge, "gave": gave})

    def near_miss(self, label: str) -> str:
        """Return the finding that calls which break a constraint are accepted."""
        return self.table("near-miss", {"dtype": self.row.dtype, "label": label})

    def table(self, kind: str, fields: Mapping[str, object]) -> str:
        """Write a finding in TOML."""
        reasons = {finding.reason for finding in self.findings if finding.kind == kind}
        plain = {
            "kind": kind,
            "backend": self.backend,
            "op": self.row.op,
            "direction": self.row.direction,
            **fields,
            "reason": reasons.pop() if len(reasons) == 1 else "",
        }
        lines = (f"{key} = {_toml(value)}" for key, value in plain.items())
        return "\n".join(["[[finding]]", *lines])


@dataclass
class _Seen:
    """The failures of one group: the worst of them, its case, and the regimes of all.

    regimes holds those of the positions that every case of the group has.
    """

    worst: Over
    case: Case
    regimes: dict[str, set[str]]

    def also(self, regimes: Mapping[str, str]) -> None:
        """Take the regimes of another case; a position that it lacks is no longer one of all."""
        both = {place: own for place, own in self.regimes.items() if place in regimes}
        self.regimes = {place: {*own, regimes[place]} for place, own in both.items()}

    @property
    def anywhere(self) -> set[str]:
        """The regimes of all positions."""
        return {regime for own in self.regimes.values() for regime in own}


@dataclass
class Proposals:
    """The undeclared failures of a row's cases, by group.

    unrepeated names the cases that passed when they were put again: no finding can hold for them.
    """

    kind: Kind
    groups: dict[Group, _Seen] = field(default_factory=dict)
    unrepeated: list[str] = field(default_factory=list[str])

    def add(self, case: Case, undeclared: Sequence[Over]) -> None:
        """Enter a failing case by those of its elements that no finding declares."""
        for over in undeclared:
            group = group_of(over)
            regimes = self._regimes(case)
            start = {place: {regime} for place, regime in regimes.items()}
            seen = self.groups.setdefault(group, _Seen(over, case, start))
            if (over.error, over.ratio) > (seen.worst.error, seen.worst.ratio):
                seen.case = case
            seen.worst = seen.worst.joined(over)
            seen.also(regimes)

    def tables(
        self, author: Author, measure: Measure, smallest: Callable[..., Case]
    ) -> Iterator[str]:
        """Yield a finding for each group. Its case is small, and reaches half of the worst.

        measure judges a case; smallest makes one smaller.
        """
        for group, seen in self.groups.items():
            start = _reached(group, measure(seen.case))
            if start.count:
                yield self._table(author, group, seen, start, measure, smallest)
            else:
                self.unrepeated.append(self.kind.describe(seen.case))

    def _table(
        self,
        author: Author,
        group: Group,
        seen: _Seen,
        start: Over,
        measure: Measure,
        smallest: Callable[..., Case],
    ) -> str:
        """Return the finding for one group.

        It names the regimes of one position: one where the case cannot be made plainer, or else the
        one that was seen in the fewest regimes.
        """
        began = time.monotonic()

        def reaches(case: Case) -> bool:
            if time.monotonic() - began > LONGEST:
                return False
            found = _reached(group, measure(case))
            far = found.ratio <= start.ratio and found.error <= start.error
            near = found.ratio >= start.ratio / 2 and found.error >= start.error / 2
            return found.count > 0 and near and far

        case = smallest(seen.case, reaches, self.kind.smaller)
        regimes = self._regimes(case)
        below = [self._regimes(candidate) for candidate in self.kind.smaller(case)]

        def order(position: str) -> tuple[bool, int]:
            plain = all(other.get(position) == regimes[position] for other in below)
            return plain, len(seen.regimes[position])

        shared = [place for place in regimes if place in seen.regimes]
        place = min(shared, key=order, default=ANYWHERE)
        among = {*seen.regimes[place], regimes[place]} if shared else seen.anywhere
        results, got, exact, _ = group
        fields: dict[str, object] = {
            "dtype": author.row.dtype,
            "regimes": {place: sorted(among)},
            "got": [got],
            "exact": [exact],
            "results": [results],
            "ratio": _rounded_up(start.ratio),
            "error": _rounded_up(start.error),
            "case": case.to_json(),
        }
        return author.table("case", {key: value for key, value in fields.items() if value})

    def _regimes(self, case: Case) -> dict[str, str]:
        """Return the regime of each position of a case."""
        return {position: recipe.regime for position, recipe in self.kind.recipes(case)}


def group_of(over: Over) -> Group:
    """Return the group of elements, whatever the numbers of steps and parameters."""
    return re.sub(r"\d+", "*", glob.escape(over.result)), over.got, over.exact, over.error > 0


def _reached(group: Group, outcome: Outcome) -> Over:
    """Return how far over budget the elements of a group are in a case."""
    found = Over("", "", "", count=0)
    if outcome.crash is None and outcome.problem is None:
        for over in outcome.over:
            if group_of(over) == group:
                found = found.joined(over)
    return found


def _rounded_up(number: float) -> float:
    """Return the next power of two; zero and infinity stay as they are."""
    return (
        number
        if math.isinf(number)
        else math.ldexp(1.0, math.ceil(math.log2(number)))
        if number
        else 0.0
    )


def _toml(value: object) -> str:
    """Write a value in TOML; a line of JSON stands between single quotes."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, str) and value.startswith("{"):
        return f"'{value}'"
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return json.dumps(value)
