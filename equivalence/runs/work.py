"""Rows at work: here or in worker processes, watched, and none lost by what befalls another."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Protocol

from equivalence.blame import Refused
from equivalence.registry import OPS
from equivalence.runs.failure import Failure
from equivalence.runs.results import Row, RowResult
from equivalence.workers.pool import Died, spread

RunRow = Callable[[Row], RowResult]
"""What a row's result is found by; it travels to worker processes."""

EXPENSIVE = ("composite", "bilinear")
"""The kinds of ops whose rows take longest, the longest first; updates take as long as they."""


class Watch(Protocol):
    """Who is told how far the rows are."""

    def started(self, row: Row) -> None:
        """Hear that a row begins."""

    def finished(self, result: RowResult) -> None:
        """Hear what was found about a row."""


class Unwatched:
    """Nobody."""

    def started(self, row: Row) -> None:
        """Say nothing."""

    def finished(self, result: RowResult) -> None:
        """Say nothing."""


class Damaged(Refused):
    """What a row is to be judged by cannot be read; the message says all there is to know."""


def attempted(run: RunRow, row: Row) -> RowResult:
    """Run one row; an exception of the suite itself makes an error of it.

    What is refused says in its own words whose fault it is: a recording's, or a form's.
    """
    try:
        return run(row)
    except Refused as error:
        failure = Failure(str(error), kind="crash")
    except Exception as error:
        place = traceback.format_exc().strip().splitlines()[-6:]
        failure = Failure(f"{type(error).__name__}: {error}", tuple(place), kind="crash")
    return RowResult(row, "error", failures=(failure,))


def run_rows(
    run: RunRow,
    rows: Sequence[Row],
    jobs: int = 0,
    watch: Watch | None = None,
    limit: float | None = None,
) -> list[RowResult]:
    """Run rows; results come back in the rows' order, and the watch hears of each as it ends.

    With no jobs all run in this process. In a worker, a call of a backend that takes longer than
    the limit, in seconds, ends its process, and the row goes on behind it.
    """
    told: Watch = Unwatched() if watch is None else watch
    order = sorted(rows, key=_priority) if jobs > 1 else list(rows)
    found: dict[Row, RowResult] = {}
    calls = [(run, row) for row in order]
    begun = partial(_begun, told, order)
    with closing(spread(attempted, calls, jobs, begun, limit, lambda n: order[n].op)) as ended:
        for number, result in ended:
            row = order[number]
            found[row] = _died(row, result) if isinstance(result, Died) else result
            told.finished(found[row])
    return [found[row] for row in rows]


def _begun(watch: Watch, order: Sequence[Row], number: int) -> None:
    """Tell a watch which row begins."""
    watch.started(order[number])


def _priority(row: Row) -> tuple[Any, ...]:
    """Order rows by what they cost, the dearest first, so that no worker idles at the end."""
    kind = OPS[row.op].kind if row.op in OPS else EXPENSIVE[0]
    return (EXPENSIVE.index(kind) if kind in EXPENSIVE else len(EXPENSIVE), row)


def _died(row: Row, died: Died) -> RowResult:
    """Make an error of a row whose process ended twice where nothing was asked of a backend."""
    at = (f"it was at: {died.at}",) if died.at else ()
    title = f"{row}: the process {died.how} while running this row"
    return RowResult(row, "error", failures=(Failure(title, at, kind="died"),))
