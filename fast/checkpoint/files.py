"""Saves what a session holds in one file, and loads it again: all of it, or nothing.

`save` replaces the file as a whole, so that a process killed at any moment leaves the previous
checkpoint or the new one. `load` reads and checks everything before it changes anything, and a
refusal names the file and the entry. A run that goes on from a checkpoint is the same, bit for
bit, as one that was never interrupted. `docs/checkpoints.md` describes the format and what these
guarantees assume.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fast.answers import telling
from fast.checkpoint import header, sealed, snapshot
from fast.disk import atomic
from fast.errors import OtherThreads, Rejected, Unverified, Unwritable, outside
from fast.session import Session

__all__ = ["Extra", "load", "save"]

File = str | os.PathLike[str]
Extra = dict[str, int | float | str]
"""What a program adds to a checkpoint of its own: its epoch, its seed, its place in the data."""

LONGEST = 400
"""The characters of a refusal, which may quote a file: more are cut out of its middle."""


@telling
def save(
    path: File,
    session: Session,
    extra: Mapping[str, int | float | str] | None = None,
    *,
    keep: int = 1,
) -> None:
    """Replace the file by what the session holds now; on failure the old file is untouched.

    A symbolic link is followed, and the permissions of a file that is replaced are kept. State that
    `load` would refuse is refused here, so a good checkpoint never gives way to a useless one.

    `extra` are ints, floats and strs by name. `keep` says how many files to keep: the one that is
    replaced stays as PATH.1 where it is 2, the one before that as PATH.2 where it is 3. Rejected
    are other entries, a keep below 1, a path that names no regular file or no folder that is there,
    and a session after an index out of range. A place that may not be written is Unwritable, which
    is an OSError, too; what else the file system refuses raises OSError.
    """
    with _named(path):
        atomic.text_of(path)
        if type(keep) is not int or keep < 1:
            raise Rejected(f"keep is a number of files, at least 1, got {keep!r}")
        contents = snapshot.read(session)
        for name, holders in contents.optimizers.items():
            snapshot.check_states(name, holders)
        description = header.write(contents, {} if extra is None else extra)
        atomic.replace(path, sealed.pack(header.tensors(contents), description), keep)


@telling
def load(
    path: File,
    session: Session,
    *,
    optimizers: Mapping[str, Mapping[str, float]] | None = None,
) -> Extra:
    """Let the session hold what the file does, and return the program's own entries.

    The session has the same parameters, by name, shape and dtype; optimizers that the file does
    not mention start afresh. The hyper-parameters that the state was made with, all but the
    learning rate, must be those of the session's last update; `optimizers` states them, and
    'groups' as the step takes them, by the
    optimizer's name where there was none, with the defaults of its step.

    What does not fit, a name in `optimizers` that is unknown, and a session after an index out of
    range, are Rejected, with the file's name in front, and so is a file of which one bit is not
    what `save` has written. A file from before there was a digest warns `Unverified`, and one of
    another number of torch's threads than this process has warns `OtherThreads`, where ops run on
    a CPU. On any exception the session is as it was.
    """
    with _named(path):
        atomic.text_of(path)
        description, tensors, verified = sealed.unpack(_bytes(path))
        contents, extra = header.read(description, tensors)
        snapshot.check(session, contents, {} if optimizers is None else optimizers)
        session.check_flag()
    if not verified:
        warnings.warn(
            f"checkpoint {path}: version {sealed.UNSEALED} has no digest, so damage inside of it "
            "may go unseen; save it again",
            Unverified,
            stacklevel=outside(),
        )
    _tell_threads(path, contents.threads, snapshot.threads_of(session))
    with snapshot.all_or_nothing(session):
        snapshot.write(session, contents)
    return extra


def _tell_threads(path: File, made: int | None, now: int | None) -> None:
    """Warn of another number of threads: then a sum may be taken in another order."""
    if made is None or now is None or made == now:
        return
    warnings.warn(
        f"checkpoint {path}: it was made with {made} of torch's threads, and this process has "
        f"{now}; sums may be in another order, so the run goes on within rounding of the one that "
        f"was saved, not bit for bit; torch.set_num_threads({made}) before the load repeats it",
        OtherThreads,
        stacklevel=outside(),
    )


def _bytes(path: File) -> bytes:
    if os.path.exists(path) and not os.path.isfile(path):
        raise Rejected("cannot be read: it is no regular file")
    try:
        with open(path, "rb") as file:
            sealed.check_size(file)
            return file.read()
    except OSError as error:
        raise Rejected(f"cannot be read: {error}") from error


@contextmanager
def _named(path: File) -> Iterator[None]:
    """Let every refusal begin with the file that it is about."""
    try:
        yield
    except Rejected as error:
        name = path if isinstance(path, (str, os.PathLike)) else repr(path)
        kind = Unwritable if isinstance(error, Unwritable) else Rejected
        raise kind(f"checkpoint {name}: {_short(str(error))}") from error


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} [{len(text) - 2 * half} characters] {text[-half:]}"
