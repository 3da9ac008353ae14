"""Rows of twins: so many drawn cases, each judged in full, and the first that breaks a promise."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from equivalence.budgets.ledger import Ledger
from equivalence.cases.strategies import quiet
from equivalence.dtypes import ASKED, DTYPES
from equivalence.measure.spent import Spent
from equivalence.runs.results import Failure, Row, RowResult, status_of
from equivalence.runs.runner import PROFILES, row_seed
from equivalence.workers import notes

GROWTH = 2.0**64
"""How large drawn values and cotangents may grow; a dtype of less range has written lives only."""

CONFIGURATIONS = tuple(
    (provider, dtype)
    for dtype in ASKED
    for provider in ("aten", "triton")
    if DTYPES[dtype].store.max_finite > GROWTH
)
"""Every provider at every precision whose parameters live differently."""

INTERPRETED = 10
"""Of rows on Triton's kernels, this many times fewer cases: the interpreter is that much slower."""


@dataclass
class Seen:
    """What a row has seen so far, and the case that it is at."""

    cases: int = 0
    judged: int = 0
    unconstrained: int = 0
    worst: float | None = None
    last: str = ""
    broken: str | None = None
    start: float = field(default_factory=time.perf_counter)

    def begin(self, case: object) -> None:
        """Begin a case."""
        self.last = str(case)
        notes.at(self.last)

    def add(self, ledger: Ledger) -> None:
        """Enter a case that was judged within its budgets."""
        self.cases += 1
        self.judged += ledger.judged
        self.unconstrained += ledger.unconstrained
        if ledger.judged:
            self.worst = max(ledger.worst, self.worst or 0.0)

    def result(self, row: Row, wanted: int = 1) -> RowResult:
        """Sum the row up; it is vacuous with fewer cases than wanted, or if none was judged."""
        failures = () if self.broken is None else (Failure(self.broken, (f"in {self.last}",)),)
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


def share(profile: str, row: Row) -> int:
    """Return how many cases a profile asks of a row."""
    cases = PROFILES[profile]
    return max(cases // INTERPRETED, 1) if row.direction == "triton" else cases


def examine_drawn(
    row: Row,
    judge: Callable[..., Ledger],
    strategies: Sequence[st.SearchStrategy[Any]],
    cases: int,
    number: int,
    shrink: bool = False,
) -> RowResult:
    """Judge so many drawn cases; the same number always draws the same ones.

    judge raises an AssertionError, such as a Violation, where a promise is broken. Shrinking then
    finds a smaller case that breaks one, and may take minutes.
    """
    seen = Seen()

    def check(case: tuple[Any, ...]) -> None:
        seen.begin(", ".join(map(repr, case)))
        seen.add(judge(*case))

    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    rules = settings(quiet(cases, *phases), report_multiple_bugs=False)
    try:
        rules(seed(row_seed(number, row))(given(st.tuples(*strategies))(check)))()
    except AssertionError as broken:
        seen.broken = str(broken)
    return seen.result(row)
