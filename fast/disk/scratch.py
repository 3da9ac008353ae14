"""Temporary folders that go with their process, or, where it was killed, with the next one.

A process holds a lock on its folder. Whoever makes one first removes those that nobody holds.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fast.disk.locks import lock, stands

PREFIX = "twingrad-scratch-"


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder that nobody else may write, for as long as the block runs."""
    remove_leftovers()
    made, descriptor = _start()
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(descriptor)


def remove_leftovers() -> None:
    """Remove the folders that processes of this user have left, and that no process holds."""
    place = Path(tempfile.gettempdir())
    for name in os.listdir(place):
        if name.startswith(PREFIX):
            with suppress(OSError):  # Another process was quicker.
                _remove(place / name)


def _remove(left: Path) -> None:
    """Remove a folder if it is ours, and nobody holds it."""
    found = left.lstat()
    # Anybody may make a name here, or a link that leads out of it.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if lock(descriptor, wait=False) and stands(left, descriptor):
            shutil.rmtree(left, ignore_errors=True)
    finally:
        os.close(descriptor)


def _start() -> tuple[Path, int]:
    """Make a folder, and hold it; one that was removed before it was held is no use."""
    while True:
        made = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            descriptor = os.open(made, os.O_RDONLY)
        except FileNotFoundError:
            continue
        lock(descriptor)
        if stands(made, descriptor):
            return made, descriptor
        os.close(descriptor)
