"""Carrying rows out: told as they end, written down as they end, and not lost when cut short."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equivalence.cli.options import (
    Earlier,
    UsageError,
    line,
    remaining,
    request,
    write,
)
from equivalence.cli.progress import Progress
from equivalence.runs.results import INTERRUPTED, USAGE, Row, RowResult, document, exit_code
from equivalence.workers.pool import expect_interpreter

LIBRARIES = {"torch": "torch", "flint": "python-flint", "hypothesis": "hypothesis"}
"""What judging needs beside Python, by the name of its import."""


def require_profile(name: str) -> None:
    """Refuse a profile that there is not, by the names of those that there are."""
    from equivalence.runs.run import Unusable, check_profile

    try:
        check_profile(name)
    except Unusable as error:
        raise UsageError(str(error)) from error


def require(*modules: str) -> None:
    """Refuse to begin where libraries are missing; the extra that brings them is named once."""
    missing = []
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError:
            missing.append(LIBRARIES[module])
    if missing:
        raise UsageError(
            f"judging needs {' and '.join(missing)}, which cannot be imported here; install the "
            "extra [check]: pip install '.[check]' in a checkout of twingrad"
        )


class Book:
    """What is found, row by row: told to a progress, and written to --json each time."""

    def __init__(
        self,
        chosen: argparse.Namespace,
        subject: str,
        rows: Sequence[Row],
        environment: Mapping[str, Any],
    ) -> None:
        """Expect rows; the environment holds the seed, which a resumed run must not draw anew."""
        self.path: Path | None = chosen.json
        self.command: str = chosen.command
        self.subject, self.rows, self.environment = subject, rows, environment
        self.asked = {**request(chosen), "seed": environment["seed"]}
        self.found: dict[Row, RowResult] = {}
        self.progress: Progress | None = None

    def started(self, row: Row) -> None:
        """Tell it."""
        if self.progress is not None:
            self.progress.started(str(row))

    def finished(self, result: RowResult) -> None:
        """Keep the result, write it down, and tell it."""
        self.found[result.row] = result
        self.write()
        if self.progress is not None:
            self.progress.finished(str(result.row), result.verdict)

    @property
    def results(self) -> list[RowResult]:
        """What was found so far, in the order of the rows."""
        return [self.found[row] for row in self.rows if row in self.found]

    @property
    def missing(self) -> list[Row]:
        """The rows that nothing was found about yet."""
        return [row for row in self.rows if row not in self.found]

    def write(self) -> None:
        """Write all that was found so far to the file, if one was asked for."""
        if self.path is None:
            return
        from equivalence.runs.run import known_findings

        environment = {**self.environment, **known_findings(self.results)}
        plain = document(self.subject, environment, self.results, self.missing)
        write(self.path, {**plain, "command": self.command, "request": self.asked})

    def way_on(self) -> str:
        """Return the command line that goes on."""
        if self.path is not None and self.path.is_file():
            return line(self.command, {"resume": str(self.path)})
        return remaining(self.command, self.asked, self.missing)


def carry_out(
    book: Book,
    run: Callable[[Sequence[Row]], object],
    earlier: Earlier,
    columns: Sequence[str] | None = None,
) -> int:
    """Run what is missing, report all that was found, and return the exit code.

    `run` runs rows and tells the book of each. Ctrl-C ends it: what is finished is reported and
    written all the same, with the line that goes on.
    """
    from equivalence.runs.report import COLUMNS, print_report, print_untried, summary

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
    if cut_short and book.missing:
        print(f"interrupted with {len(book.results)} of {len(book.rows)} rows done; go on with")
        print(f"    {book.way_on()}")
    return INTERRUPTED if cut_short else exit_code(book.results)


def ended(command: Callable[[argparse.Namespace], int], chosen: argparse.Namespace) -> int:
    """Run a command and return its exit code: also of what cannot be, and of Ctrl-C."""
    expect_interpreter()
    try:
        with terminable():
            return command(chosen)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("interrupted before anything was finished", file=sys.stderr)
        return INTERRUPTED


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does."""
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
