"""The other process: it compiles one graph, and puts the artifact where every process finds it.

It gives way to others on the machine, and ends with the process that has started it, however that
ends: it is the leader of a group, to which the compilers that it starts belong.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from threading import Thread
from time import sleep
from typing import NamedTuple, NoReturn

import torch

from fast.compiled import artifacts, inductor
from fast.compiled.background import graphs

NICER = 5
"""How much less urgent a compilation is than the training beside it."""

LOOKS, GRACE = 0.2, 3.0
"""The seconds between two looks at who has started this process, and those left to tidy up."""


class Job(NamedTuple):
    """What is compiled: the artifact's name, the graph, and what the code that is made depends on.

    `options` and `threads` are those of the process that asks, as the name is.
    """

    key: str
    graph: bytes
    options: dict[str, object]
    threads: int


def main(parent: int) -> None:
    """Compile the job that stands on the standard input, for a process of that number."""
    signal.signal(signal.SIGTERM, _end)
    Thread(target=_leave_with, args=(parent,), daemon=True).start()
    os.nice(NICER)
    job: Job = pickle.load(sys.stdin.buffer)
    torch.set_num_threads(job.threads)
    inductor.OPTIONS.clear()
    inductor.OPTIONS.update(job.options)
    try:
        artifacts.fetch(job.key, lambda: inductor.built(*graphs.read(job.graph)))
    except Exception as error:
        print(" ".join(f"{error}".split()) or type(error).__name__, file=sys.stderr)
        sys.exit(1)


def _end(*_: object) -> NoReturn:
    """Leave by an exception, so that temporary folders go."""
    sys.exit(1)


def _leave_with(parent: int) -> None:
    """Wait until the process is another one's, and end its whole group."""
    while os.getppid() == parent:
        sleep(LOOKS)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGTERM)
        sleep(GRACE)
        os.killpg(0, signal.SIGKILL)
