"""Notes of the case in work: written down before each call, so that a death can be told by name.

A kernel that stores outside its memory may end its process, and nothing in that process can then
say what it was doing. A worker keeps a file for this; a process that keeps none writes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

_kept: list[BinaryIO] = []


def keep_in(path: Path) -> None:
    """Write the notes of this process into a file from now on."""
    _kept[:] = [path.open("wb", buffering=0)]


def at(what: str) -> None:
    """Note what is about to be called; it replaces the last note."""
    for file in _kept:
        file.seek(0)
        file.truncate()
        file.write(what.encode())


def last_of(path: Path) -> str:
    """Return the last note of a file; empty where there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
