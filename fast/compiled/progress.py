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


def _say(line: str) -> None:
    if sys.stderr.isatty() and not _QUIET.get():
        # Over a progress bar that stands in the line, and is drawn anew below.
        print(f"\r\033[K{line}", file=sys.stderr, flush=True)
