"""Replaces a file as a whole: whoever looks finds the old bytes or the new ones, never a part.

The new bytes go to a temporary file beside the old one, and to the disk, before a rename lets them
take the name. `docs/checkpoints.md` says what this assumes of the file system.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from fast.errors import Rejected


def destination(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path names, links followed, or refuse what cannot be replaced."""
    place = Path(os.path.realpath(path))
    if not place.parent.is_dir():
        raise Rejected(f"there is no folder {place.parent}; make it first")
    if place.exists() and not place.is_file():
        raise Rejected(f"{place} is no regular file; name one, or a name that is free")
    return place


def replace(path: str | os.PathLike[str], data: bytes) -> None:
    """Let a path name a file with exactly these bytes, on disk; on failure nothing has changed."""
    place = destination(path)
    unfinished = place.with_name(f".{place.name}.{secrets.token_hex(8)}.part")
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
    _keep_name(place.parent)


def _keep_name(folder: Path) -> None:
    """Bring a folder's entries to disk, so that a rename outlives a loss of power."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
