"""A command of this package in a new process, where nothing has run before."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence

LONGEST = 120.0
"""For how many seconds the command may run."""


def run_afresh(arguments: Sequence[str], seconds: float = LONGEST) -> int | None:
    """Run `python -m equivalence` with some arguments in a new process; return its exit code.

    None says that it took too long, or was ended. The process imports from where this one does.
    """
    command = [sys.executable, "-m", "equivalence", *arguments]
    where = os.pathsep.join(path or os.getcwd() for path in sys.path)
    silent = subprocess.DEVNULL
    try:
        ended = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": where},
            stdin=silent,
            stdout=silent,
            stderr=silent,
            timeout=seconds,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError):
        return None
    return ended.returncode if ended.returncode >= 0 else None


def in_a_worker() -> bool:
    """Say whether this is a worker of a pool, rather than a caller's own process."""
    return multiprocessing.parent_process() is not None
