"""Locks between processes: on files, and gone with the process that holds them, however it ends.

A lock is on a file, not on its name. So who has waited for one, or has just made the file, looks
whether the name still stands for it: another process may have removed it in between.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def lock(descriptor: int, wait: bool = True) -> bool:
    """Hold a file until its descriptor is closed; say whether that went, where it should not wait.

    On a file system without locks nobody waits, and nothing that is not ours is removed.
    """
    try:
        import fcntl
    except ImportError:
        return wait  # Outside POSIX nobody is asked, and nothing is removed.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def stands(path: str | os.PathLike[str], descriptor: int) -> bool:
    """Say whether a path names the file that is open, and not another one or none."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def alone(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a path for as long as the block runs, and say whether it is held.

    It is not where another process holds it and nobody should wait, or where there are no locks.
    The file is made if it is missing, and stays, unless who holds the lock removes it.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            held = lock(descriptor, wait)
            if held and not stands(path, descriptor):
                continue  # Who held it has removed it.
            yield held
            return
        finally:
            os.close(descriptor)
