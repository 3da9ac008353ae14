"""Run rows, show and write each result at once, and keep the results of an interrupted run."""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equivalence.blame import Refused
from equivalence.cli.options import (
    Earlier,
    UsageError,
    line,
    remaining,
    request,
    write,
)
from equivalence.cli.progress import Progress
from equivalence.runs.results import CRASH, INTERRUPTED, USAGE, Row, RowResult, document, exit_code
from equivalence.workers.pool import expect_interpreter

LIBRARIES = {"torch": "torch", "flint": "python-flint", "hypothesis": "hypothesis"}
"""The libraries that judging needs, by the names of their imports."""


def require_profile(name: str) -> None:
    """Refuse an unknown profile, and name the known ones."""
    from equivalence.runs.run import check_profile

    check_profile(name)


def require(*modules: str) -> None:
    """Refuse to begin if libraries are missing. Name the extra that installs them once."""
    missing = []
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError:
            missing.append(LIBRARIES[module])
    if missing:
        raise UsageError(
            f"judging needs {' and '.join(missing)}, which cannot be imported here; install the "
            "extra [check]: in a checkout of twingrad, pip install '.[check]', from a wheel, "
            "pip install 'FILE.whl[check]'"
        )


class Book:
    """The results, row by row. Each one goes to the progress display and to the file of --json."""

    def __init__(
        self,
        chosen: argparse.Namespace,
        subject: str,
        rows: Sequence[Row],
        environment: Mapping[str, Any],
        unsupported: Collection[Row] = (),
    ) -> None:
        """Expect rows, of which the unsupported ones are over before they begin.

        The environment holds the seed, so that a resumed run draws no other.
        """
        self.unsupported = unsupported
        self.path: Path | None = chosen.json
        self.command: str = chosen.command
        self.whole: bool = getattr(chosen, "whole", False)
        self.subject, self.rows, self.environment = subject, rows, environment
        self.asked = {**request(chosen), "seed": environment["seed"]}
        self.found: dict[Row, RowResult] = {}
        self.progress: Progress | None = None

    def started(self, row: Row) -> None:
        """Show that a row runs."""
        if self.progress is not None and row not in self.unsupported:
            self.progress.started(str(row))

    def finished(self, result: RowResult) -> None:
        """Keep the result, write it down, and show it."""
        self.found[result.row] = result
        self.write()
        if self.progress is not None:
            self.progress.finished(str(result.row), result.verdict)

    @property
    def results(self) -> list[RowResult]:
        """The results so far, in the order of the rows."""
        return [self.found[row] for row in self.rows if row in self.found]

    @property
    def missing(self) -> list[Row]:
        """The rows without a result so far."""
        return [row for row in self.rows if row not in self.found]

    def write(self) -> None:
        """Write the results so far to the file of --json, if there is one."""
        if self.path is None:
            return
        from equivalence.runs.run import known_findings

        environment = {**self.environment, **known_findings(self.results)}
        plain = document(self.subject, environment, self.results, self.missing)
        write(self.path, {**plain, "command": self.command, "request": self.asked})

    def continuation(self) -> str:
        """Return the command line that continues the run."""
        if self.path is not None and self.path.is_file():
            return line(self.command, {"resume": str(self.path)})
        return remaining(self.command, self.asked, self.missing)


def carry_out(
    book: Book,
    run: Callable[[Sequence[Row]], object],
    earlier: Earlier,
    columns: Sequence[str] | None = None,
) -> int:
    """Run the missing rows, report all results, and return the exit code.

    `run` runs rows and passes each result to the book. Ctrl-C ends it. The finished rows are still
    reported and written, and a command line that continues the run is printed.
    """
    from equivalence.runs.report import COLUMNS, parts_of_ops, print_report, print_untried, summary

    wanted = set(book.rows)
    book.found |= {result.row: result for result in earlier.results if result.row in wanted}
    book.write()
    cut_short = False
    try:
        with Progress(book.subject, len(book.rows), len(book.found)) as book.progress:
            run(book.missing)
    except KeyboardInterrupt:
        cut_short = True
    print_report(book.results, columns=COLUMNS if columns is None else columns)
    print_untried(book.environment.get("untried", {}))
    print(f"\n{book.subject}: {summary(book.results)} (seed {book.environment['seed']})")
    if said := parts_of_ops(book.results):
        print(said)
    if cut_short and book.missing:
        print(f"interrupted with {len(book.results)} of {len(book.rows)} rows done; go on with")
        print(f"    {book.continuation()}")
    return INTERRUPTED if cut_short else exit_code(book.results, book.whole)


def ended(command: Callable[[argparse.Namespace], int], chosen: argparse.Namespace) -> int:
    """Run a command and return its exit code, also for an impossible request and for Ctrl-C.

    What is refused, by whoever refuses it, is one sentence and exit code 2. Anything else that is
    raised is a fault of the suite.
    """
    expect_interpreter()
    try:
        with terminable():
            return command(chosen)
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("interrupted before anything was finished", file=sys.stderr)
        return INTERRUPTED
    except Exception:
        print(traceback.format_exc(), end="", file=sys.stderr)
        print(
            "error: the suite itself failed, as the lines above show; this is no verdict on what "
            "it judged",
            file=sys.stderr,
        )
        return CRASH


@contextmanager
def terminable() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
