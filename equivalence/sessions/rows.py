"""What the commands `programs`, `trainers`, `curvature` and `machine` judge, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from equivalence.runs.results import Row, RowResult
from equivalence.runs.runner import PROFILES, row_seed
from equivalence.sessions.calls.machine import judge_calls
from equivalence.sessions.curvature.judge import COARSER
from equivalence.sessions.curvature.ops import CURVES, judge_op
from equivalence.sessions.curvature.programs import KINDS
from equivalence.sessions.dags.rows import (
    is_designed,
    judge_artifacts,
    judge_dags,
    judge_designed,
    part_of,
    rows_compiled,
    rows_designed,
    rows_drawn,
)
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
class Task:
    """How rows are judged: by a profile and a seed, and whether what fails is shrunk.

    `cases` and `nodes` are how many random programs are judged at each configuration, and how large
    they are at most, where that is not left to the profile.
    """

    profile: str
    number: int
    shrink: bool = False
    cases: int | None = None
    nodes: int | None = None

    def programs(self, row: Row) -> int:
        """Return how many random programs are judged at the configuration of a row."""
        return share(self.profile, row) if self.cases is None else self.cases

    @property
    def artifacts(self) -> int:
        """Return how many random programs an engine compiles at each precision."""
        return max(PROFILES[self.profile] // 8, 1) if self.cases is None else self.cases


@dataclass(frozen=True)
class Command:
    """The rows of a command for a task, or of an engine; and how a row is judged."""

    rows: Callable[[Task], Sequence[Row]]
    judged: Callable[[Task, Row], RowResult]
    engines: Mapping[str, Callable[[Task], Sequence[Row]]] = field(default_factory=dict)


def fixed(*rows: Row) -> Callable[[Task], Sequence[Row]]:
    """Ask for the same rows in every task."""
    return lambda task: rows


def program_rows(task: Task) -> Sequence[Row]:
    """Ask for the written programs, for those on graphs, and for random ones of any extents.

    The designed ones come at `ci` and above, or where their number was asked for.
    """
    written = [Row(name, way, "fp32") for name in WRITTEN for way in ("aten", "triton")]
    designed = rows_designed() if task.profile != "quick" else []
    return [*written, *GRAPHS, *rows_drawn(task.programs), *designed]


def compiled_rows(engine: str, task: Task) -> Sequence[Row]:
    """Ask for programs that an engine compiles: small ones, and random ones of any extents."""
    return [*COMPILED[engine], *rows_compiled(engine, task.artifacts)]


def drawn(command: str, task: Task, row: Row) -> RowResult:
    """Judge as many drawn cases as a profile asks of a row."""
    return judge_drawn(command, row, share(task.profile, row), task.number, task.shrink)


def judge_program(task: Task, row: Row) -> RowResult:
    """Judge a program that is written down, drawn ones, or designed ones."""
    if part_of(row) is not None and row.op.partition("-")[0] in ENGINES:
        return judge_artifacts(row, task.artifacts, task.nodes, task.number)
    if part_of(row) is not None:
        return judge_dags(row, task.programs(row), task.nodes, task.number)
    if is_designed(row):
        return judge_designed(row, task.number)
    if row.op not in WRITTEN:
        return drawn("programs", task, row)
    seen = Seen()
    seen.begin(f"the program {row.op} of equivalence.sessions.programs")
    with seen.watching(), started(row.direction, row.dtype) as run:
        WRITTEN[row.op](run)
    seen.add(run.ledger, len(run.program))
    return seen.result(row)


def judge_curvature(task: Task, row: Row) -> RowResult:
    """Judge second derivatives: those of an op, or of drawn programs."""
    if row.op not in CURVES:
        return drawn("curvature", task, row)
    seen = Seen()
    with seen.watching():
        judge_op(row.op, row.dtype, share(task.profile, row), row_seed(task.number, row), seen)
    return seen.result(row)


def judge_stateful(task: Task, row: Row) -> RowResult:
    """Drive stateful runs: of a session op by op, or of the calls of an engine that compiles."""
    judge = judge_calls if row.op in ENGINES else judge_machine
    return judge(task.profile, task.number, task.shrink, row)


COMMANDS: Mapping[str, Command] = {
    "programs": Command(
        program_rows,
        judge_program,
        {engine: partial(compiled_rows, engine) for engine in COMPILED},
    ),
    "trainers": Command(
        fixed(*TRAINERS),
        partial(drawn, "trainers"),
        {engine: fixed(*rows) for engine, rows in TRAINED.items()},
    ),
    "curvature": Command(fixed(*CURVATURE), judge_curvature),
    "machine": Command(
        lambda task: machine_rows(task.profile),
        judge_stateful,
        {engine: fixed(*rows) for engine, rows in COMPILED.items()},
    ),
}
"""Every command that judges sessions, by name."""


def judge_row(command: str, task: Task, row: Row) -> RowResult:
    """Judge a row of a command."""
    return COMMANDS[command].judged(task, row)
