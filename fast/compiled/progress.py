"""Says on a terminal that a program is being compiled, and how long that took."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

_QUIET = ContextVar("quiet", default=False)


@contextmanager
def quiet(wanted: bool) -> Iterator[None]:
    """Say nothing while the block runs, where that is wanted."""
    before = _QUIET.set(wanted)
    try:
        yield
    finally:
        _QUIET.reset(before)


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Say that the block compiles something, and then how long that took."""
    start = monotonic()
    _say(f"engine: compiling {what}, which takes some 10 to 40 s, once on this machine ...")
    yield
    _say(f"engine: compiled in {monotonic() - start:.1f} s")


def say(line: str) -> None:
    """Say what is worth a line in any log, unless nothing is to be said."""
    if not _QUIET.get():
        # On a terminal over a progress bar that stands in the line, and is drawn anew below.
        start = "\r\033[K" if sys.stderr.isatty() else ""
        print(f"{start}{line}", file=sys.stderr, flush=True)


def _say(line: str) -> None:
    if sys.stderr.isatty():
        say(line)
