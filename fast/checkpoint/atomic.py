"""Replaces a file as a whole: whoever looks finds the old bytes or the new ones, never a part.

The new bytes go to a temporary file beside the old one, and to the disk, before a rename lets them
take the name. `docs/checkpoints.md` says what this assumes of the file system.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fast.errors import Rejected

LONGEST = 255
"""The bytes that a name may have on the usual file systems."""


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
    if not place.parent.is_dir():
        raise Rejected(f"there is no folder {place.parent}; make it first")
    if place.exists() and not place.is_file():
        raise Rejected(f"{place} is no regular file; name one, or a name that is free")
    return place


def replace(path: str | os.PathLike[str], data: bytes) -> None:
    """Let a path name a file with exactly these bytes, on disk; on failure nothing has changed."""
    place = destination(path)
    with _opened(place.parent) as folder:
        unfinished = place.with_name(_unfinished(place.name))
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if place.exists():
                    os.chmod(unfinished, stat.S_IMODE(place.stat().st_mode))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, place)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        if folder is not None:
            # Brings the entries to disk, so that the rename outlives a loss of power.
            os.fsync(folder)


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
    """Name a temporary file after the one that it will replace, cut where that is too long."""
    ending = f".{secrets.token_hex(8)}.part"
    room = LONGEST - len(".") - len(ending)
    encoded = os.fsencode(name)
    stem = name if len(encoded) <= room else encoded[:room].decode(errors="ignore")
    return f".{stem}{ending}"
