"""Artifacts on disk: found again by what made them, shared by processes, and checked before use.

A file holds a digest and a package, and is replaced as a whole, so nobody reads a part; while one
process compiles, another one waits for it. A file is read once and compared with its digest before
anything of it is run; one that is damaged is made anew. Files that were not used for longest go
where all of them take too much room, and so does what killed processes have left; what a process is
using or making stays.

The folder is private, since what it holds is code that is run: one that is not ours, that others
may write, or that is a link, is refused. The digest is against damage. It does not protect against
who can write the folder, and needs not: they can run code as its owner anyway.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fast.disk.atomic import UNFINISHED, remove_leftovers, replace
from fast.disk.locks import alone
from fast.errors import Rejected

VARIABLE = "TWINGRAD_CACHE"
"""The environment's name for the folder, where it is not the user's usual one for caches."""

MOST_BYTES = 2 * 1024**3
"""The room that artifacts take, of which one is some megabytes."""

MAGIC = b"twingrad artifact 1\n"


def folder() -> Path:
    """Return the private folder of artifacts, made if it is missing; refuse one that is not."""
    usual = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    place = Path(os.environ.get(VARIABLE) or os.path.join(usual, "twingrad"), "artifacts")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.lstat()
    except OSError as error:
        raise Rejected(
            f"engine: the folder of artifacts, {place}, cannot be made: {error.strerror}; "
            f"{VARIABLE} in the environment names another"
        ) from error
    rule = f"engine: {place} holds code that is run, so it is a folder of yours that only you write"
    if not stat.S_ISDIR(found.st_mode):
        raise Rejected(f"{rule}; it is a link or a file")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise Rejected(f"{rule}; it belongs to user {found.st_uid}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Rejected(f"{rule}; its mode is {stat.S_IMODE(found.st_mode):o}, not 700")
    return place


def fetch(key: str, make: Callable[[], bytes]) -> bytes:
    """Return the package of a key: from disk, or made, while others who want it wait."""
    place = folder() / f"{key}.artifact"
    with alone(_lock_of(place)):
        package = read(place)
        if package is None:
            package = make()
            replace(place, sealed(package))
            make_room(place.parent, MOST_BYTES)
        else:
            os.utime(place)
        return package


def found(key: str) -> bytes | None:
    """Return the package of a key if it is there and whole; nobody is waited for."""
    place = folder() / f"{key}.artifact"
    package = read(place)
    if package is not None:
        with suppress(OSError):  # Another process makes room at the same time.
            os.utime(place)
    return package


def kept(place: Path) -> list[tuple[Path, int]]:
    """Return the artifacts of a folder and their bytes, the one that was used last at the end."""
    found = []
    for file in place.glob("*.artifact"):
        with suppress(FileNotFoundError):  # Another process makes room at the same time.
            found.append((file, file.stat()))
    found.sort(key=lambda item: (item[1].st_mtime_ns, item[0].name))
    return [(file, about.st_size) for file, about in found]


def make_room(place: Path, most: int) -> int:
    """Remove what was not used for longest, until the rest takes so many bytes; count them."""
    remove_leftovers(place, rf"\..*\.{UNFINISHED}")
    files = kept(place)
    total, removed = sum(size for _, size in files), 0
    for file, size in files:
        if total <= most:
            break
        if _removed(file):
            total, removed = total - size, removed + 1
    for left in place.glob("*.lock"):
        if not left.with_suffix(".artifact").exists():
            _removed(left.with_suffix(".artifact"))
    return removed


def _removed(file: Path) -> bool:
    """Remove an artifact and its lock, unless a process holds that; say whether it went."""
    lock = _lock_of(file)
    with alone(lock, wait=False) as held:
        if held:
            file.unlink(missing_ok=True)
            lock.unlink()
        return held


def _lock_of(file: Path) -> Path:
    return file.with_suffix(".lock")


def sealed(package: bytes) -> bytes:
    """Put a digest in front of a package."""
    return MAGIC + hashlib.sha256(package).digest() + package


def unsealed(data: bytes | bytearray) -> bytes | None:
    """Return the package of a file's bytes if they are whole, every bit of them; else None."""
    start = len(MAGIC) + hashlib.sha256().digest_size
    with memoryview(data) as view:
        if view[: len(MAGIC)] != MAGIC:
            return None
        if hashlib.sha256(view[start:]).digest() != view[len(MAGIC) : start]:
            return None
        return bytes(view[start:])


def read(place: Path) -> bytes | None:
    """Return a file's package if it is whole; None where there is none, or it is damaged."""
    try:
        data = place.read_bytes()
    except FileNotFoundError:
        return None
    package = unsealed(data)
    if package is None:
        print(f"engine: {place.name} is damaged, and is made anew", file=sys.stderr)
    return package
