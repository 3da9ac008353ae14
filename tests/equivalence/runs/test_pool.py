"""Workers: a row that kills its process is an error, and the other rows are not lost."""

from __future__ import annotations

import os
import signal
from typing import Any

from equivalence.runs.pool import attempt_row, run_parallel

from equivalence.runs.results import Row, RowResult

ROWS = [Row(op, "value", "fp32") for op in ("add", "sub", "mul")]


def run_or_die(backend: Any, row: Row, deadly: str) -> RowResult:
    """Run a row; one of them ends its process as a wild store does."""
    if row.op == deadly:
        os.kill(os.getpid(), signal.SIGSEGV)
    return RowResult(row, "conformant", cases=len(backend.name))


def raising(backend: Any, row: Row) -> RowResult:
    raise KeyError(row.op)


def test_a_dying_worker_costs_one_row() -> None:
    seen: list[RowResult] = []
    results = run_parallel(run_or_die, "torch", ROWS, {"deadly": "sub"}, 2, seen.append)
    assert [result.row for result in results] == ROWS
    assert [result.status for result in results] == ["conformant", "error", "conformant"]
    assert "the process died" in results[1].failures[0].title
    assert all(result.cases == len("torch") for result in (results[0], results[2]))
    assert {result.row for result in seen} == {ROWS[0], ROWS[2]}


def test_an_exception_of_the_suite_is_an_error_row() -> None:
    result = attempt_row(raising, None, ROWS[0], {})
    assert result.status == "error" and "KeyError: 'add'" in result.failures[0].title
