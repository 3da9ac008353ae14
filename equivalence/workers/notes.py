"""Notes of the case in work, and of what came of those before it, for the process that goes on.

A backend may end its process, or never come back, and nothing in that process can then say what it
was doing. So a worker keeps a file for its task: each question is written down before it is put to
a backend, and each answer after it. A fresh process that takes over the task finds the answers and
asks only what is left. The question without an answer is the one that the process ended at, and
whoever waits for the worker writes down how (`end`).
A process that keeps no file writes nothing.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

Answer = TypeVar("Answer")


class Mark(Protocol):
    """A number that two processes share."""

    value: float


@dataclass(frozen=True, slots=True)
class Ended:
    """What stands in the place of an answer: how the process ended, and whether it was too late."""

    how: str
    late: bool = False


@dataclass
class Notes:
    """What a file says: the answers by their questions, the question without one, the last note."""

    answers: dict[str, Any] = field(default_factory=dict)
    open: str | None = None
    last: str = ""
    whole: int = 0


@dataclass
class _Kept:
    """The file of this process, what it said at first, and the mark of the call that is running."""

    file: BinaryIO | None = None
    answers: dict[str, Any] = field(default_factory=dict)
    since: Mark | None = None


_kept = _Kept()


def keep_in(path: Path, since: Mark | None = None) -> None:
    """Write the notes of this process into a file from now on, and go on from what it says.

    since is set to `time.monotonic()` while a call of a backend runs, and to 0 otherwise; that
    clock is the machine's, so another process can tell how long a call has taken.
    """
    keep_none()
    before = read(path)
    _kept.file = _opened(path, before.whole)
    _kept.answers, _kept.since = before.answers, since


def keep_none() -> None:
    """Write no notes any more, and forget what they said."""
    if _kept.file is not None:
        _kept.file.close()
    _kept.file, _kept.answers, _kept.since = None, {}, None


def at(what: str) -> None:
    """Note what is about to be done, where its result is nothing to go on from."""
    _write("at", what)


def asked(question: str, what: str, ask: Callable[[], Answer]) -> Answer | Ended:
    """Return the answer to a question: the one in the file, else what `ask` returns.

    question is the same text in every process that is at the task; what is what a reader is told.
    Ended stands for the answer of a question at which an earlier process ended.
    """
    if question in _kept.answers:
        found: Answer | Ended = _kept.answers[question]
        return found
    _write("asked", question, what)
    answer = ask()
    _write("answer", question, answer)
    return answer


@contextmanager
def calling() -> Iterator[None]:
    """Mark that a call of a backend runs, for whoever waits for this process."""
    if _kept.since is not None:
        _kept.since.value = time.monotonic()
    try:
        yield
    finally:
        if _kept.since is not None:
            _kept.since.value = 0.0


def read(path: Path) -> Notes:
    """Read a file as far as it is whole; the process may have ended while it wrote."""
    notes = Notes()
    if not path.exists():
        return notes
    with path.open("rb") as file:
        while True:
            try:
                kind, *rest = pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                return notes
            notes.whole = file.tell()
            if kind == "at":
                notes.last = rest[0]
            elif kind == "asked":
                notes.open, notes.last = rest
            else:
                notes.answers[rest[0]], notes.open = rest[1], None


def end(path: Path, how: Ended) -> None:
    """Answer the question at which a process ended."""
    before = read(path)
    with _opened(path, before.whole) as file:
        file.write(pickle.dumps(("answer", before.open, how)))


def _opened(path: Path, whole: int) -> BinaryIO:
    """Open a file to write on behind what of it is whole."""
    path.touch()
    file = path.open("r+b", buffering=0)
    file.truncate(whole)
    file.seek(whole)
    return file


def _write(*record: Any) -> None:
    """Write a record at once, so that it is there whatever comes next."""
    if _kept.file is not None:
        _kept.file.write(pickle.dumps(record))
