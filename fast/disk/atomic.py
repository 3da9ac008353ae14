"""Replaces a file as a whole: whoever looks finds the old bytes or the new ones, never a part.

The new bytes go to a temporary file beside the old one, and to the disk, before a rename lets them
take the name. Its writer holds a lock on it, so that the next one tells what a killed process has
left behind from what is being written. `docs/checkpoints.md` says what this assumes of the file
system.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fast.disk.locks import lock, stands
from fast.errors import Rejected, Unwritable

LONGEST = 255
"""The bytes that a name may have on the usual file systems."""

UNFINISHED = r"[0-9a-f]{16}\.part"
"""How the names of temporary files end."""


def text_of(path: Any) -> str:
    """Return a path as text, or refuse what can name no file."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if (
        not isinstance(text, str)
        or "\0" in text
        or os.path.basename(text) in ("", os.curdir, os.pardir)
    ):
        raise Rejected(f"a path that names a file is needed, got {path!r}")
    return text


def destination(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path names, links followed, or refuse what cannot be replaced."""
    place = Path(os.path.realpath(text_of(path)))
    if place.is_symlink():
        raise Rejected(f"{place} is a link that leads back to itself; name a file")
    if not place.parent.is_dir():
        raise Rejected(f"there is no folder {place.parent}; make it first")
    if place.exists() and not place.is_file():
        raise Rejected(f"{place} is no regular file; name one, or a name that is free")
    return place


def replace(path: str | os.PathLike[str], data: bytes, keep: int = 1) -> None:
    """Let a path name a file with exactly these bytes, on disk; on failure nothing has changed.

    With `keep` above 1 the files before it stay, as PATH.1, the latest of them, to PATH.keep-1.
    What killed processes have left of earlier files of this name is removed. What the system does
    not let be written is Unwritable.
    """
    place = destination(path)
    try:
        with _opened(place.parent) as folder:
            remove_leftovers(place.parent, re.escape(_begun(place.name)) + UNFINISHED)
            _replace(place, data, keep)
            if folder is not None:
                # Brings the entries to disk, so that the rename outlives a loss of power.
                os.fsync(folder)
    except PermissionError as error:
        raise Unwritable(
            f"cannot be written: {error.strerror}; name a file in a folder where this process may "
            f"make files, which {place.parent} is not"
        ) from error


def set_aside(path: str | os.PathLike[str]) -> None:
    """Let a file that is there and holds something be PATH.1, so that its name is free.

    A file that may not be written is not moved, either: that raises OSError.
    """
    text_of(path)
    if not os.path.isfile(path) or not os.path.getsize(path):
        return
    place = destination(path)
    with place.open("r+b"):
        os.replace(place, place.with_name(f"{place.name}.1"))


def _replace(place: Path, data: bytes, keep: int) -> None:
    unfinished, descriptor = _start(place)
    with os.fdopen(descriptor, "wb") as file:
        try:
            if place.exists():
                os.chmod(unfinished, stat.S_IMODE(place.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            _age(place, keep)
            os.replace(unfinished, place)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


def _start(place: Path) -> tuple[Path, int]:
    """Open a temporary file, and hold it; one that was removed before that was held is no use."""
    while True:
        unfinished = place.with_name(_unfinished(place.name))
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        lock(descriptor)
        if stands(unfinished, descriptor):
            return unfinished, descriptor
        os.close(descriptor)


def _age(place: Path, keep: int) -> None:
    """Let a file that will be replaced stay as PATH.1, and older ones one number further on.

    PATH itself stays where it is, so that there is a whole file of its name at any moment.
    """
    if keep < 2 or not place.exists():
        return
    older = [place.with_name(f"{place.name}.{k}") for k in range(1, keep)]
    for one, other in zip(reversed(older[:-1]), reversed(older[1:]), strict=True):
        if one.exists():
            os.replace(one, other)
    copy = place.with_name(_unfinished(older[0].name))
    try:
        os.link(place, copy)
    except OSError:
        shutil.copy2(place, copy)  # A file system without hard links.
    os.replace(copy, older[0])


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Remove the temporary files of such names that no process is writing any more."""
    for name in os.listdir(folder):
        if re.fullmatch(pattern, name):
            left = folder / name
            try:
                with left.open("rb") as file:
                    if lock(file.fileno(), wait=False):
                        left.unlink(missing_ok=True)
            except OSError:
                continue  # Another process was quicker, or it is not ours to remove.


@contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    """Open a folder to bring its entries to disk, before anything has changed: it may be refused.

    Where folders cannot be opened, which is outside POSIX, there is nothing to bring.
    """
    if os.name != "posix":
        yield None
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _unfinished(name: str) -> str:
    """Name a temporary file after the one that it will replace."""
    return f"{_begun(name)}{secrets.token_hex(8)}.part"


def _begun(name: str) -> str:
    """Return how the names of its temporary files begin, cut where that is too long."""
    room = LONGEST - len("..") - 16 - len(".part")
    encoded = os.fsencode(name)
    stem = name if len(encoded) <= room else encoded[:room].decode(errors="ignore")
    return f".{stem}."
