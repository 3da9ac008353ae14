"""The compilations of one session: one at a time, each in a process of its own.

Nobody waits for one: a session asks in each step whether an artifact is there, which is a look at
one process. They end with the session, or with its process.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, NamedTuple
from weakref import finalize

import torch
from torch import Tensor
from torch.fx import GraphModule

from fast.compiled import inductor, progress
from fast.compiled.background import graphs
from fast.compiled.background.worker import GRACE, Job
from fast.errors import Unavailable

REPLAY, INDUCTOR = "replay", "inductor"

START = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from fast.compiled.background.worker import main; main(int(sys.argv[1]))"
)
"""What such a process runs: the `fast` of this one, from wherever this one has it."""

MOST_SAID = 300
"""How many characters of a failure are repeated."""


class Work(NamedTuple):
    """A process at work, and the file to which it writes what goes wrong."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]


class Compiler:
    """What a session compiles beside its steps, and which engine took them.

    `last` is the engine that ran the program which was run last. `engines` counts the updates that
    each engine has taken, in the order in which they took turns. `stopped` says that the session
    stays with replay from now on.
    """

    def __init__(self, owner: object) -> None:
        """Start with nothing to do; processes end when the owner goes, or this process does."""
        self.last = REPLAY
        self.engines: list[tuple[str, int]] = []
        self.stopped = self._switched = False
        self._queue: dict[str, bytes] = {}
        self._work: list[Work] = []
        finalize(owner, _end, self._work, os.getpid())

    def start(self, key: str, graph: GraphModule, given: Sequence[Tensor]) -> None:
        """Let an artifact be made, after those that were asked for before.

        No compiler is Unavailable.
        """
        inductor.require_compiler()
        if key not in self._queue:
            threads, options = torch.get_num_threads(), inductor.OPTIONS
            job = Job(key, graphs.written(graph, given), options, threads)
            self._queue[key] = pickle.dumps(job)
            self._go_on()

    def ready(self, key: str) -> bool:
        """Say whether an artifact that was asked for has been made; a failure is Unavailable."""
        if key in self._queue:
            self._look()
        return key not in self._queue

    def switched(self, what: str) -> None:
        """Note that an artifact takes over, and say so of the first."""
        if not self._switched:
            self._switched = True
            progress.say(f"engine: inductor takes over from replay: {what} is compiled")

    def stop(self, why: str) -> None:
        """Compile nothing any more, and say why, once."""
        if not self.stopped:
            self.stopped = True
            progress.say(f"engine: auto stays with replay: {why[:MOST_SAID]}")
        self._queue.clear()
        _end(self._work, os.getpid())

    def count(self) -> None:
        """Count an update for the engine that ran its program."""
        engine, count = self.engines[-1] if self.engines else ("", 0)
        if engine == self.last:
            self.engines[-1] = engine, count + 1
        else:
            self.engines.append((self.last, 1))

    def _look(self) -> None:
        """See whether the process at work has ended, and start the next."""
        process, errors = self._work[0]
        code = process.poll()
        if code is None:
            return
        said = _last_line(errors)
        _end(self._work, os.getpid())
        del self._queue[next(iter(self._queue))]
        if code:
            raise Unavailable(said or f"the process that compiled it ended with {code}")
        self._go_on()

    def _go_on(self) -> None:
        """Start a process for the job that has waited for longest, if none is at work."""
        if self._work or not self._queue:
            return
        errors = tempfile.TemporaryFile()  # noqa: SIM115 (it is read when the process has ended)
        with tempfile.TemporaryFile() as job:
            # A pipe would hold less than a graph, and would have to be filled in a step.
            job.write(next(iter(self._queue.values())))
            job.seek(0)
            process = subprocess.Popen(
                [sys.executable, "-c", START, str(os.getpid()), *map(str, sys.path)],
                stdin=job,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        self._work.append(Work(process, errors))


def _last_line(file: IO[bytes]) -> str:
    """Return the last line of a file in which something stands."""
    file.seek(0)
    lines = file.read().decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "")


def _end(work: list[Work], owner: int) -> None:
    """End processes and what they have started; a copy of this process leaves them alone."""
    if os.getpid() != owner:
        return
    for process, errors in work:
        errors.close()
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    work.clear()
