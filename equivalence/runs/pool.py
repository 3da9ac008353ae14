"""Rows in parallel: worker processes that each load the backend once.

A row's result depends on nothing but its own seed, so the number of workers changes only the time.
A worker that dies (a kernel's store outside its memory can do that) takes down its pool; the rows
that were lost are run again, each in a process of its own, and the one that dies again is an error.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from equivalence.runs.results import Failure, Row, RowResult
from spec.optim import OPTIMIZERS

Progress = Callable[[RowResult], None]
RunRow = Callable[..., RowResult]

EXPENSIVE = (
    "layer_norm",
    "cross_entropy",
    "matmul",
    "linear",
    "log_softmax",
    "softmax",
    *OPTIMIZERS,
)
"""Rows that take longest start first, so that no worker idles at the end."""

_loaded: dict[str, Any] = {}


def _start(backend: str) -> None:
    """Prepare a worker: one thread for torch, and the backend."""
    import torch

    from equivalence.backends import load

    torch.set_num_threads(1)
    _loaded["backend"] = load(backend)


def _run(run: RunRow, row: Row, options: Mapping[str, Any]) -> RowResult:
    """Run one row in a worker."""
    return attempt_row(run, _loaded["backend"], row, options)


def attempt_row(run: RunRow, backend: Any, row: Row, options: Mapping[str, Any]) -> RowResult:
    """Run one row; an exception of the suite itself makes an error of it."""
    try:
        return run(backend, row, **options)
    except Exception as error:
        place = traceback.format_exc().strip().splitlines()[-6:]
        failure = Failure(f"{type(error).__name__}: {error}", tuple(place), crash=True)
        return RowResult(row, "error", failures=(failure,))


def _priority(row: Row) -> tuple[int, Row]:
    return (EXPENSIVE.index(row.op) if row.op in EXPENSIVE else len(EXPENSIVE), row)


def run_parallel(
    run: RunRow,
    backend: str,
    rows: Sequence[Row],
    options: Mapping[str, Any],
    jobs: int,
    progress: Progress,
) -> list[RowResult]:
    """Run rows of a named backend in worker processes; results come back in the rows' order."""
    found = _pooled(run, backend, sorted(rows, key=_priority), options, jobs, progress)
    for row in rows:
        if row not in found:
            alone = _pooled(run, backend, [row], options, 1, progress)
            found[row] = alone.get(row) or _died(row)
    return [found[row] for row in rows]


def _pooled(
    run: RunRow,
    backend: str,
    rows: Sequence[Row],
    options: Mapping[str, Any],
    jobs: int,
    progress: Progress,
) -> dict[Row, RowResult]:
    """Run rows in one pool; a row that is missing from the result was lost with its worker."""
    found: dict[Row, RowResult] = {}
    context = multiprocessing.get_context("spawn")
    workers = max(1, min(jobs, len(rows)))
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start, initargs=(backend,)
    ) as pool:
        futures: dict[Future[RowResult], Row] = {}
        try:
            futures = {pool.submit(_run, run, row, options): row for row in rows}
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                progress(found[futures[future]])
        except BrokenProcessPool:
            pool.shutdown(wait=False, cancel_futures=True)
    return found


def _died(row: Row) -> RowResult:
    failure = Failure(f"{row}: the process died while running this row", crash=True)
    return RowResult(row, "error", failures=(failure,))
