"""How a worker process comes to be: forked, where that is safe, from a server that has torch ready.

A fresh interpreter takes seconds to import torch. A server imports it once, runs nothing of a
stranger's, and forks; so a worker, or the one after it that died, is there at once. On other
systems than Linux a library may not survive the fork, and every worker is a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.context import ForkServerContext, SpawnContext
from types import ModuleType

READY = ["torch", "numpy", "hypothesis", "flint"]
"""What the server imports: libraries that read no setting which a later worker may change."""


def context() -> ForkServerContext | SpawnContext:
    """Return what starts processes. Its server starts with the first worker."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(READY)
    return found


@contextlib.contextmanager
def started() -> Iterator[None]:
    """Let a process that starts import nothing of the caller's script, which needs no guard then.

    A worker is told modules by their names, and runs no function of `__main__`.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Let a process that starts, and what it starts, hear no Ctrl-C: it inherits what is blocked.

    The first process of a server starts multiprocessing's tracker, too, and that lets interrupts
    through again. So the tracker is there before.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def release_server() -> None:
    """Let the server of this process, a worker, end with the caller.

    The server ends when nobody holds its pipe any more, and each process that it forks holds it.
    """
    from multiprocessing import forkserver

    server = getattr(forkserver, "_forkserver", None)
    pipe = getattr(server, "_forkserver_alive_fd", None)
    if pipe is not None:
        server._forkserver_alive_fd = None  # type: ignore[union-attr]
        os.close(pipe)
