"""Notes: what a process has asked and been answered, for the process that goes on after it.

A backend may end its process, or may never return. Then nothing in that process can say what it was
doing. So a worker keeps a file for its task: it writes down each question before the backend is
asked, and each answer afterwards. A fresh process that takes over the task reads the answers, and
asks only what is left. One question has no answer: the process ended there. The pool that waits
for the worker writes down how (`end`).
A process that keeps no file writes nothing.
Each note is a line of JSON: a stranger's code may have written it (`equivalence.workers.data`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from equivalence.workers import data


class Mark(Protocol):
    """A number that two processes share."""

    value: float


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended at a question; late, where it was ended for taking too long."""

    how: str
    late: bool = False


@dataclass
class Notes:
    """What a file says.

    answers   the answers as plain data, or how the process ended, by their questions
    open      the question that has no answer
    last      the last note in words
    whole     how many bytes of the file are whole
    """

    answers: dict[str, Any] = field(default_factory=dict)
    open: str | None = None
    last: str = ""
    whole: int = 0


@dataclass
class _Kept:
    """The notes of this process.

    file      where they are written
    answers   what the file said when this process began
    since     when the running call of a backend began
    """

    file: BinaryIO | None = None
    answers: dict[str, Any] = field(default_factory=dict)
    since: Mark | None = None


_kept = _Kept()


def keep_in(path: Path, since: Mark | None = None) -> None:
    """Write the notes of this process into a file from now on, and go on from what it says.

    While a call of a backend runs, since holds the `time.monotonic()` of its start; otherwise it
    holds 0. All processes share this clock, so another one can tell how long the call has taken.
    """
    keep_none()
    before = read(path)
    _kept.file = _opened(path, before.whole)
    _kept.answers, _kept.since = before.answers, since


def keep_none() -> None:
    """Stop writing notes, and forget what they said."""
    if _kept.file is not None:
        _kept.file.close()
    _kept.file, _kept.answers, _kept.since = None, {}, None


def at(what: str) -> None:
    """Note what is about to be done, and has no answer that another process could use."""
    _write("at", what)


def answers() -> Mapping[str, Any]:
    """Return the answers that earlier processes of the task have left, by their questions.

    They are plain data. `Ended` is the answer to a question at which a process ended.
    """
    return _kept.answers


def asks(question: str, title: str) -> None:
    """Note that a question is put now.

    The question is the same text in every process that is at the task. A reader sees the title.
    """
    _write("asked", question, title)


def answered(question: str, answer: Any) -> None:
    """Note the answer to a question."""
    _write("answer", question, answer)


@contextmanager
def calling() -> Iterator[None]:
    """Mark that a call of a backend runs, so that the pool can see how long it takes."""
    if _kept.since is not None:
        _kept.since.value = time.monotonic()
    try:
        yield
    finally:
        if _kept.since is not None:
            _kept.since.value = 0.0


def read(path: Path) -> Notes:
    """Read the whole records of a file; the process may have ended within the last one."""
    notes = Notes()
    if not path.exists():
        return notes
    with path.open("rb") as file:
        for line in file:
            record = _record(line)
            if record is None:
                return notes
            notes.whole += len(line)
            _take(notes, *record)
    return notes


def _record(line: bytes) -> list[Any] | None:
    """Return what a line says; None where it is not whole, or was written by nobody of ours."""
    try:
        record = data.read(line)
    except data.NotOfForm:
        return None
    known = isinstance(record, list) and bool(record) and LENGTHS.get(str(record[0])) == len(record)
    return record if known and line.endswith(b"\n") and isinstance(record[1], str) else None


LENGTHS = {"at": 2, "asked": 3, "answer": 3, "ended": 4}
"""How many entries each kind of note has, its name included."""


def _take(notes: Notes, kind: str, what: str, *rest: Any) -> None:
    """Take one note down."""
    if kind == "at":
        notes.last = what
    elif kind == "asked":
        notes.open, notes.last = what, str(rest[0])
    else:
        answer = Ended(str(rest[0]), bool(rest[1])) if kind == "ended" else rest[0]
        notes.answers[what], notes.open = answer, None


def end(path: Path, how: Ended) -> None:
    """Answer the question at which a process ended."""
    before = read(path)
    with _opened(path, before.whole) as file:
        file.write(data.written(("ended", before.open, how.how, how.late)) + b"\n")


def _opened(path: Path, whole: int) -> BinaryIO:
    """Open a file for writing behind its whole records."""
    path.touch()
    file = path.open("r+b", buffering=0)
    file.truncate(whole)
    file.seek(whole)
    return file


def _write(*record: Any) -> None:
    """Write a record at once, before anything else can happen."""
    if _kept.file is not None:
        _kept.file.write(data.written(record) + b"\n")
