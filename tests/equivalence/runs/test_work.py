"""Rows at work: they come back in order, whoever watches, and what befalls one is an error row."""

from __future__ import annotations

import os
import signal

from equivalence.runs.results import Row, RowResult
from equivalence.runs.work import Damaged, attempted, run_rows
from equivalence.workers import notes

ROWS = [Row(op, "value", "fp32") for op in ("add", "sub", "softmax")]


class Heard:
    """A watch that keeps what it hears."""

    def __init__(self) -> None:
        self.began: list[Row] = []
        self.ended: list[Row] = []

    def started(self, row: Row) -> None:
        self.began.append(row)

    def finished(self, result: RowResult) -> None:
        self.ended.append(result.row)


def run_or_die(row: Row) -> RowResult:
    """Run a row; one of them ends its process as a wild store does."""
    notes.at("the second case")
    if row.op == "sub":
        os.kill(os.getpid(), signal.SIGSEGV)
    return RowResult(row, "conformant")


def raising(row: Row) -> RowResult:
    raise KeyError(row.op)


def damaged(row: Row) -> RowResult:
    raise Damaged("this file is damaged")


def test_a_dying_worker_costs_one_row() -> None:
    heard = Heard()
    results = run_rows(run_or_die, ROWS, 2, heard)
    assert [result.row for result in results] == ROWS
    assert [result.status for result in results] == ["conformant", "error", "conformant"]
    assert results[1].failures[0].lines() == [
        "sub value fp32: the process was ended by SIGSEGV while running this row",
        "  it was at: the second case",
    ]
    assert heard.began[0].op == "softmax", "what takes longest starts first"
    assert sorted(heard.ended) == sorted(ROWS)


def test_an_exception_of_the_suite_is_an_error_row() -> None:
    result = attempted(raising, ROWS[0])
    assert result.status == "error" and "KeyError: 'add'" in result.failures[0].title


def test_what_is_damaged_is_said_without_a_traceback() -> None:
    assert attempted(damaged, ROWS[0]).failures[0].lines() == ["this file is damaged"]
