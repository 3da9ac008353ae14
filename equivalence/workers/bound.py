"""A worker's process is bound to its caller: it ends when the caller does, and alone.

The caller may be killed, and can then end nobody. So a thread of the worker waits for the caller's
end. A call that never returns to Python stops the thread. So the system is asked as well (Linux can
do that): it ends the worker when the process ends that forked it, which ends with the caller.
A worker leads a process group. What it sends to its own group never reaches the caller, and what it
has started ends with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.connection import wait

from equivalence.workers.born import release_server

_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2): which signal a process gets when its parent ends."""


def bind() -> None:
    """Bind this process, a worker, to its caller."""
    caller = multiprocessing.parent_process()
    if caller is None:
        raise RuntimeError("only a process that multiprocessing started has a caller")
    if hasattr(os, "setsid"):
        with contextlib.suppress(PermissionError):  # it leads a group already
            os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    if sys.platform == "linux":
        release_server()
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    threading.Thread(target=_follow, args=(caller.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    """Wait for the end of the caller, and end this process and its group."""
    wait([sentinel])
    end_group(os.getpid())
    os._exit(1)


def end_group(leader: int | None) -> None:
    """End a process that leads a group, and the group. One that leads none is left alone."""
    if leader is not None and hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
