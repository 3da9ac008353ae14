"""An assertion that a backend is conformant: one line in a test of one's own."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from equivalence.runs.report import print_report, summary
from equivalence.runs.results import CONFORMANT, RowResult, exit_code
from equivalence.runs.run import Request, perform


def assert_conforms(
    backend: Any,
    ops: Sequence[str] | str | None = None,
    *,
    profile: str = "quick",
    seed: int | None = None,
    **options: Any,
) -> list[RowResult]:
    """Judge a backend as the command `run` does, and return the result of every row.

    backend   a backend, a class of one, or a name that `load` takes
    ops       the operations and optimizers to judge; None takes all that there are
    profile   quick, ci, thorough or sizes
    seed      the seed of the drawn cases; thorough draws one if none is given
    options   further fields of `Request`: findings, fence, pages, jobs, limit

    An object is judged in this process, and so is a name without jobs. AssertionError holds the
    report if the command's exit code would not be 0, so also if no case was judged. A request that
    cannot be carried out raises what `perform` raises, since it says nothing about the backend.
    """
    named = isinstance(backend, str)
    found = backend() if isinstance(backend, type) else backend
    wanted = [ops] if isinstance(ops, str) else ops
    name = backend if named else str(getattr(found, "name", type(found).__name__))
    request = Request(name, wanted, profile=profile, seed=seed, **options)
    done = perform(request, None if named else found)
    if exit_code(done.results) != CONFORMANT:
        raise AssertionError(_report(name, done.results, done.environment["seed"]))
    return done.results


def _report(name: str, results: Sequence[RowResult], seed: int) -> str:
    """Return the report of a run as text."""
    text = io.StringIO()
    print_report(results, text)
    return f"{name}: {summary(results)} (seed {seed})\n{text.getvalue().rstrip()}"
