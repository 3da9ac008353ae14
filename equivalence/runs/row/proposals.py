"""Narrow findings for what failed undeclared, as one would paste them: all but their reasons."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from equivalence.budgets.outcome import Outcome, Over
from equivalence.runs.kinds import Case, Kind
from equivalence.runs.results import Row

Group = tuple[str, str, str]
"""Results, what their wrong elements are, and what they should be."""

Measure = Callable[[Case], Outcome]


def edge_table(backend: str, row: Row, edge: str, gave: str) -> str:
    """Return the finding that an edge gives this wrong result."""
    return _table("edge", backend, row, {"edge": edge, "gave": gave})


def near_miss_table(backend: str, row: Row, label: str) -> str:
    """Return the finding that calls which break a constraint are accepted."""
    return _table("near-miss", backend, row, {"label": label})


@dataclass
class _Seen:
    """The failures of one group: how far over budget at most, where, and in which regimes."""

    worst: Over
    case: Case
    regimes: dict[str, set[str]] = field(default_factory=dict)


@dataclass
class Proposals:
    """The undeclared failures of a row's cases, by group."""

    kind: Kind
    groups: dict[Group, _Seen] = field(default_factory=dict)

    def add(self, case: Case, undeclared: Sequence[Over]) -> None:
        """Enter a failing case by those of its elements that no finding declares."""
        for over in undeclared:
            group = group_of(over)
            seen = self.groups.setdefault(group, _Seen(over, case))
            if (over.error, over.ratio) > (seen.worst.error, seen.worst.ratio):
                seen.case = case
            seen.worst = seen.worst.joined(over)
            for position, recipe in self.kind.recipes(case):
                seen.regimes.setdefault(position, set()).add(recipe.regime)

    def tables(
        self, backend: str, row: Row, measure: Measure, smallest: Callable[..., Case]
    ) -> Iterator[str]:
        """Yield a finding for each group, with a case that is small and reaches half of the worst.

        measure judges a case, and smallest shrinks one.
        """
        for group, seen in self.groups.items():
            yield self._table(backend, row, group, seen, measure, smallest)

    def _table(
        self,
        backend: str,
        row: Row,
        group: Group,
        seen: _Seen,
        measure: Measure,
        smallest: Callable[..., Case],
    ) -> str:
        """Return the finding for one group; its regimes are of the position that takes fewest."""
        place = min(seen.regimes, key=lambda position: len(seen.regimes[position]))
        among = seen.regimes[place]
        start = _reached(group, measure(seen.case))

        def reaches(case: Case) -> bool:
            regimes = {position: recipe.regime for position, recipe in self.kind.recipes(case)}
            found = _reached(group, measure(case))
            near = found.ratio >= start.ratio / 2 and found.error >= start.error / 2
            return found.count > 0 and near and regimes.get(place) in among

        case = smallest(seen.case, reaches, self.kind.smaller)
        results, got, exact = group
        fields: dict[str, object] = {
            "regimes": {place: sorted(among)},
            "got": [got],
            "exact": [exact],
            "results": [results],
            "ratio": _rounded_up(start.ratio),
            "error": _rounded_up(start.error),
            "case": case.to_json(),
        }
        return _table("case", backend, row, {key: v for key, v in fields.items() if v})


def group_of(over: Over) -> Group:
    """Return the group of elements; the numbers of steps and parameters do not matter."""
    return re.sub(r"\d+", "*", over.result), over.got, over.exact


def _reached(group: Group, outcome: Outcome) -> Over:
    """Return how far over budget the elements of a group are in a case."""
    found = Over("", "", "", count=0)
    if outcome.crash is None and outcome.problem is None:
        for over in outcome.over:
            if group_of(over) == group:
                found = found.joined(over)
    return found


def _rounded_up(number: float) -> float:
    """Return the next power of two."""
    return math.ldexp(1.0, math.ceil(math.log2(number))) if number else 0.0


def _table(kind: str, backend: str, row: Row, fields: Mapping[str, object]) -> str:
    """Write a finding in TOML; its reason is for its author to say."""
    named = {"kind": kind, "backend": backend, "op": row.op, "direction": row.direction}
    dtype = {} if kind == "near-miss" else {"dtype": row.dtype}
    plain = {**named, **dtype, **fields, "reason": ""}
    return "\n".join(["[[finding]]", *(f"{key} = {_toml(value)}" for key, value in plain.items())])


def _toml(value: object) -> str:
    """Write a value in TOML; a line of JSON stands between single quotes."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, str) and value.startswith("{"):
        return f"'{value}'"
    return json.dumps(value)
