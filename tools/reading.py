"""Sees which files of a tree a command opens, and so what its outcome can depend on.

The kernel tells (inotify), whichever process opens a file, and whatever it is written in. Compiled
bytecode would hide a source, so each command begins without any. Another process that reads the
tree meanwhile, such as a search or `git status`, counts as well: what it opens makes the outcome
depend on more files than it does, and never on fewer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import TextIO

from inotify_simple import INotify, flags

from tools.tree import files

LAST = ".reading-ends"
"""The file that is opened to say that no event follows."""


def run(
    root: Path, command: Sequence[str], log: TextIO, bytecode: Path
) -> tuple[int, frozenset[str]]:
    """Run a command in a tree; return its exit code and the files of the tree that were opened.

    Names are relative to the tree. Where the kernel has lost count, they are all its files.
    `bytecode` is a folder that is emptied, and written instead of those in the tree. A command that
    is interrupted is ended, and the interrupt goes on.
    """
    paths = [path.relative_to(root).as_posix() for path in files(root)]
    folders = sorted({os.path.dirname(path) for path in paths} | {""})
    for folder in folders:
        shutil.rmtree(root / folder / "__pycache__", ignore_errors=True)
    shutil.rmtree(bytecode, ignore_errors=True)
    opened: set[str] = set()
    with INotify() as kernel:
        watched = {kernel.add_watch(root / folder, flags.OPEN): folder for folder in folders}
        reader = Thread(target=_collect, args=(kernel, watched, paths, opened))
        reader.start()
        try:
            code = _ended(root, command, log, bytecode)
        finally:
            (root / LAST).touch()
            reader.join()
            (root / LAST).unlink()
    return code, frozenset(opened.intersection(paths))


def _collect(
    kernel: INotify, watched: dict[int, str], paths: Sequence[str], opened: set[str]
) -> None:
    """Add the names of files that are opened, until the last one is."""
    while True:
        for event in kernel.read():
            if event.mask & flags.Q_OVERFLOW:
                opened.update(paths)
            elif event.name == LAST:
                return
            elif event.wd in watched and not event.mask & flags.ISDIR:
                opened.add(os.path.join(watched[event.wd], event.name))


def _ended(root: Path, command: Sequence[str], log: TextIO, bytecode: Path) -> int:
    """Run a command to its end; it is interrupted with this process, which waits for it."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode)}
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=log, stderr=subprocess.STDOUT
    ) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:
            print("interrupted; the step ends first", file=sys.stderr)
            child.wait()
            raise
