"""What is seen of the runs of a row: how many, how much was judged, the first that is broken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from equivalence.budgets.ledger import Ledger
from equivalence.budgets.violation import Violation
from equivalence.dtypes import ASKED, DTYPES
from equivalence.measure.spent import Spent
from equivalence.runs.failure import Failure
from equivalence.runs.results import Row, RowResult, status_of
from equivalence.runs.runner import PROFILES
from equivalence.workers import notes

GROWTH = 2.0**64
"""How large drawn values and cotangents may grow; a dtype of less range has written runs only."""

CONFIGURATIONS = tuple(
    (provider, dtype)
    for dtype in ASKED
    for provider in ("aten", "triton")
    if DTYPES[dtype].store.max_finite > GROWTH
)
"""Every provider at every precision whose parameters live differently."""

INTERPRETED = 10
"""Of rows on Triton's kernels, this many times fewer cases: the interpreter is that much slower."""


def share(profile: str, row: Row) -> int:
    """Return how many cases a profile asks of a row."""
    cases = PROFILES[profile]
    return max(cases // INTERPRETED, 1) if row.direction == "triton" else cases


@dataclass
class Seen:
    """What a row has seen so far, the run that it is at, and what the first broken run says.

    `program` is the text that replays the broken run, where its statements were noted.
    """

    cases: int = 0
    statements: int = 0
    judged: int = 0
    unconstrained: int = 0
    worst: float | None = None
    last: str = ""
    says: str = ""
    program: str = ""
    start: float = field(default_factory=time.perf_counter)

    def begin(self, run: object) -> None:
        """Begin a run."""
        self.last = str(run)
        notes.at(self.last)

    def add(self, ledger: Ledger, statements: int = 0) -> None:
        """Enter a run that has been judged."""
        self.cases += 1
        self.statements += statements
        self.judged += ledger.judged
        self.unconstrained += ledger.unconstrained
        if ledger.judged:
            self.worst = max(ledger.worst, self.worst or 0.0)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keep what the first broken promise says, and let nobody else hear of it."""
        try:
            yield
        except AssertionError as broken:
            self.says = str(broken)
            if isinstance(broken, Violation):
                self.program = replay(broken)

    def result(self, row: Row, wanted: int = 1) -> RowResult:
        """Sum the row up; it is vacuous with fewer runs than wanted, or if none was judged."""
        failures = (Failure(self.says, self._where()),) if self.says else ()
        status = status_of(
            failed=bool(failures),
            crashed=False,
            counted=self.cases if self.judged else 0,
            wanted=wanted,
            judged=self.judged,
            unconstrained=self.unconstrained,
        )
        return RowResult(
            row=row,
            status=status,
            cases=self.cases,
            worst_fraction=self.worst,
            judged=self.judged,
            unconstrained=self.unconstrained,
            failures=failures,
            spent=Spent(time.perf_counter() - self.start),
        )

    def _where(self) -> tuple[str, ...]:
        """Say which run is broken, and what replays it."""
        inside = (f"in {self.last}",) if self.last else ()
        lines = self.program.splitlines()
        return (*inside, "This program replays it:", "", *lines) if lines else inside


def replay(broken: Violation) -> str:
    """Write a broken run as a program that breaks it again; empty if no statement was noted."""
    if not broken.program:
        return ""
    if broken.program[0].startswith("from "):
        return "\n".join([*broken.program, f"# {broken.says}", ""])
    begin = ("from equivalence.sessions.stateful.run import Run", "")
    return "\n".join([*begin, *broken.program, f"# {broken.says}", ""])
