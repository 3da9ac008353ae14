"""What the commands `programs`, `trainers`, `curvature` and `machine` judge, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import row_seed
from equivalence.sessions.calls.machine import judge_calls
from equivalence.sessions.curvature.judge import COARSER
from equivalence.sessions.curvature.ops import CURVES, judge_op
from equivalence.sessions.curvature.programs import KINDS
from equivalence.sessions.drawn import judge_drawn
from equivalence.sessions.programs import PROGRAMS, Program, started
from equivalence.sessions.seen import CONFIGURATIONS, Seen, share
from equivalence.sessions.stateful.machine import judge_machine, machine_rows
from equivalence.sessions.trainers import ENGINES
from equivalence.sessions.trainings import INTERPRETERS

WRITTEN: Mapping[str, Program] = {program.__name__: program for program in PROGRAMS}

GRAPHS = tuple(Row("drawn", *where) for where in CONFIGURATIONS)
"""Programs that are drawn, and run on a graph and on the device tape."""

TRAINERS = (
    *(Row("-".join(pair), *where) for pair in INTERPRETERS for where in CONFIGURATIONS),
    *(Row("list", provider, "fp32") for provider in ("aten", "triton")),
    *(Row("mean", *where) for where in CONFIGURATIONS),
)
"""Trainers by their interpreters; lists that are updated by hand; means over a batch."""

ATEN = [where for where in CONFIGURATIONS if where[0] == "aten"]
COMPILED = {engine: [Row(engine, *where) for where in ATEN] for engine in ENGINES}
"""Drawn programs that an engine compiles, two artifacts each, and runs of calls of a few."""

TRAINED = {engine: [Row(f"{engine}-eager", *where) for where in ATEN] for engine in ENGINES}
"""Trainers whose steps an engine compiles: one or more artifacts for each drawn training."""

CURVATURE = (
    *(Row(kind, "aten", precision) for kind in KINDS for precision in COARSER),
    *(Row(name, "aten", precision) for name in CURVES for precision in COARSER),
)
"""Programs that are drawn, and every op that moves with an input, at calls of its own design."""


@dataclass(frozen=True)
class Command:
    """The rows of a command at a profile, or of an engine; how a row is judged, by a seed."""

    rows: Callable[[str], Sequence[Row]]
    judged: Callable[[str, int, bool, Row], RowResult]
    engines: Mapping[str, Sequence[Row]] = field(default_factory=dict)


def fixed(*rows: Row) -> Callable[[str], Sequence[Row]]:
    """Ask for the same rows at every profile."""
    return lambda profile: rows


def drawn(command: str, profile: str, number: int, shrink: bool, row: Row) -> RowResult:
    """Judge as many drawn cases as a profile asks of a row."""
    return judge_drawn(command, row, share(profile, row), number, shrink)


def judge_program(profile: str, number: int, shrink: bool, row: Row) -> RowResult:
    """Judge a program: one that is written down, or drawn ones."""
    if row.op not in WRITTEN:
        return drawn("programs", profile, number, shrink, row)
    seen = Seen()
    seen.begin(f"the program {row.op} of equivalence.sessions.programs")
    with seen.watching(), started(row.direction, row.dtype) as run:
        WRITTEN[row.op](run)
    seen.add(run.ledger, len(run.program))
    return seen.result(row)


def judge_curvature(profile: str, number: int, shrink: bool, row: Row) -> RowResult:
    """Judge second derivatives: those of an op, or of drawn programs."""
    if row.op not in CURVES:
        return drawn("curvature", profile, number, shrink, row)
    seen = Seen()
    with seen.watching():
        judge_op(row.op, row.dtype, share(profile, row), row_seed(number, row), seen)
    return seen.result(row)


def judge_stateful(profile: str, number: int, shrink: bool, row: Row) -> RowResult:
    """Drive stateful runs: of a session op by op, or of the calls of an engine that compiles."""
    judge = judge_calls if row.op in ENGINES else judge_machine
    return judge(profile, number, shrink, row)


COMMANDS: Mapping[str, Command] = {
    "programs": Command(
        fixed(*(Row(name, way, "fp32") for name in WRITTEN for way in ("aten", "triton")), *GRAPHS),
        judge_program,
        COMPILED,
    ),
    "trainers": Command(fixed(*TRAINERS), partial(drawn, "trainers"), TRAINED),
    "curvature": Command(fixed(*CURVATURE), judge_curvature),
    "machine": Command(machine_rows, judge_stateful, COMPILED),
}
"""Every command that judges sessions, by name."""


def judge_row(command: str, profile: str, number: int, shrink: bool, row: Row) -> RowResult:
    """Judge a row of a command by a profile and a seed."""
    return COMMANDS[command].judged(profile, number, shrink, row)
