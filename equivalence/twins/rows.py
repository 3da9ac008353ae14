"""What the commands `programs`, `trainers` and `curvature` judge, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import fast
from equivalence.budgets.outcome import merged
from equivalence.runs.results import Row, RowResult
from equivalence.twins import curvature, graphs, trainings
from equivalence.twins.examined import Seen, share
from equivalence.twins.programs import PROGRAMS
from equivalence.twins.session import TwinSession

WRITTEN: Mapping[str, Callable[[TwinSession], None]] = {p.__name__: p for p in PROGRAMS}


@dataclass(frozen=True)
class Twins:
    """The rows of a command, and how one is judged by a profile's number of cases and a seed."""

    rows: Sequence[Row]
    judged: Callable[[Row, int, int, bool], RowResult]


def judged_program(row: Row, cases: int, number: int, shrink: bool) -> RowResult:
    """Judge a program: one that is written down, or drawn ones."""
    if row.op not in WRITTEN:
        return graphs.judged(row, cases, number, shrink)
    seen = Seen()
    seen.begin(f"the program {row.op} of equivalence.twins.programs")
    twin = TwinSession(fast.Session(provider=row.direction, precision=row.dtype))
    try:
        WRITTEN[row.op](twin)
    except AssertionError as broken:
        seen.broken = str(broken)
    seen.cases = 1
    found = merged(*(verdict.named(label) for label, verdict in twin.verdicts.items()))
    seen.judged, seen.unconstrained, seen.worst = found.judged, found.unconstrained, found.fraction
    if found.failed and seen.broken is None:
        seen.broken = found.problem or (found.detail.line() if found.detail else "over budget")
    return seen.result(row)


TWINS: Mapping[str, Twins] = {
    "programs": Twins(
        (*(Row(name, way, "fp32") for name in WRITTEN for way in ("aten", "triton")), *graphs.ROWS),
        judged_program,
    ),
    "trainers": Twins(trainings.ROWS, trainings.judged),
    "curvature": Twins(curvature.ROWS, curvature.judged),
}
"""Every command of this kind, by name."""


def judge_row(command: str, profile: str, number: int, shrink: bool, row: Row) -> RowResult:
    """Judge a row of a command by a profile and a seed."""
    twins = TWINS[command]
    return twins.judged(row, share(profile, row), number, shrink)
