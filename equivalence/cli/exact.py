"""The command that runs kernels and torch functions on exact numbers: `exact`."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from equivalence.cli.options import UsageError, filled, request, write
from equivalence.cli.progress import Progress
from equivalence.cli.suite import bring_pages
from equivalence.cli.work import require
from equivalence.runs.report import aligned, print_untried
from equivalence.runs.results import CONFORMANT, INTERRUPTED, NONCONFORMANT

if TYPE_CHECKING:
    from equivalence.exact.rows import Found, Row


SCHEMA = 1
"""The number of the JSON format of `exact`."""


def command_exact(chosen: argparse.Namespace) -> int:
    """Compare the requested rows, print the results, and return the exit code."""
    chosen, _ = filled(chosen)
    require("torch", "hypothesis")
    # Workers inherit it; the kernels of this process are not loaded yet.
    os.environ["TRITON_INTERPRET"] = "1"
    from equivalence.backends import load
    from equivalence.exact.rows import spread_out

    bring_pages(chosen.pages)
    backend = None if chosen.backend is None else load(chosen.backend)
    wanted = _rows(chosen.ops, backend)
    if chosen.jobs > 0:
        _found_elsewhere(wanted)
    if chosen.points is not None and chosen.points < 1:
        raise UsageError(f"--points is a number of points, at least 1; got {chosen.points}")
    untried = _tried(wanted)
    start = time.perf_counter()
    results: dict[Row, Found] = {}
    try:
        with Progress("exact", len(wanted)) as progress:
            asked = (wanted, chosen.points, chosen.seed or 0, chosen.backend, chosen.jobs)
            for row, found in spread_out(*asked, lambda row: progress.started(str(row))):
                results[row] = found
                progress.finished(str(row), found.status)
    except KeyboardInterrupt:
        pass
    ended = [results[row] for row in wanted if row in results]
    _report(ended, time.perf_counter() - start, ours=backend is None)
    print_untried(untried)
    if chosen.json is not None:
        plain = [found.to_dict() for found in ended]
        said = {
            "schema": SCHEMA,
            "command": "exact",
            "request": request(chosen),
            "complete": len(ended) == len(wanted),
            "rows": plain,
        }
        write(chosen.json, {**said, "untried": untried} if untried else said)
    if len(ended) < len(wanted):
        print(f"interrupted with {len(ended)} of {len(wanted)} rows done")
        return INTERRUPTED
    return _exit_code(ended)


def _exit_code(results: Sequence[Found]) -> int:
    """Return the exit code. A run fails if a row differs, or if no row is equal."""
    from equivalence.exact.rows import DIFFERS

    fails = any(found.status == DIFFERS for found in results)
    return NONCONFORMANT if fails or not any(found.equal for found in results) else CONFORMANT


def _found_elsewhere(rows: Sequence[Row]) -> None:
    """Refuse registered pages that a worker process could not find."""
    from equivalence.registry import addresses

    addresses(row.of for row in rows)


def _tried(rows: Sequence[Row]) -> dict[str, str]:
    """Test the registered pages of some rows by the laws. Refuse a page that breaks one."""
    from equivalence.registry import ENTRIES

    names = [row.of for row in rows if row.of in ENTRIES]
    if not names:
        return {}
    require("flint")
    from equivalence.trials.trial import BrokenPage, try_pages

    try:
        return try_pages(names)
    except BrokenPage as error:
        raise UsageError(str(error)) from error


def _rows(ops: Sequence[str] | None, backend: Any) -> list[Row]:
    """Return the requested rows, or refuse an unknown name."""
    from equivalence.exact.rows import rows

    known = list(dict.fromkeys(row.of for row in rows(backend=backend)))
    for name in ops or ():
        if name not in known:
            raise UsageError(f"--ops: unknown name {name!r}; there are {', '.join(known)}")
    return rows(ops, backend)


def _report(results: Sequence[Found], seconds: float, ours: bool) -> None:
    """Print a table, and a paragraph for each row that is not equal."""
    from equivalence.exact.interpreter import all_kernels
    from equivalence.exact.rows import COLUMNS, DIFFERS, REFUSED, UNREAD

    print(aligned([COLUMNS, *(found.cells() for found in results)]))
    for found in results:
        if not found.equal:
            head = f"\n{found.row} {found.status}"
            print(head, *(f"  {line}" for line in found.reasons[:3]), sep="\n")
    counts = Counter(found.status for found in results)
    elements = sum(found.verdict.elements for found in results)
    points = sum(found.points for found in results)
    kernels = ""
    if ours:
        known = all_kernels()
        reached = {name for found in results for name in found.verdict.kernels & known}
        kernels = f"{len(reached)} of {len(known)} kernels, "
    print(
        f"\nexact: {len(results)} rows, {counts[DIFFERS]} differ; {points} points, "
        f"{elements} elements, {kernels}{seconds:.0f} s; "
        f"{counts[UNREAD]} rows cannot be read, {counts[REFUSED]} refused"
    )
    print(
        "exact: what is equal, and each bound, holds for the shapes and attributes that were tried"
    )
