"""Tasks in parallel: worker processes that each take the next task, and never outlive the pool.

The result of a task depends on nothing but its arguments, so the number of workers changes only the
time. A worker that dies (a kernel's store outside its memory can do that) costs the task that it
was at, no other: the task is tried again by a fresh process, and the second death is its result,
with the note that the worker had left (`equivalence.workers.notes`).
Workers hear no Ctrl-C: it ends the caller's loop, and leaving that loop, however, ends them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import tempfile
import threading
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from equivalence.workers import notes

TRIES = 2
"""How often a task may take its process down; after the last time that is its result."""


@dataclass(frozen=True, slots=True)
class Died:
    """A task's process ended before the task did: how, and at which noted case."""

    how: str
    at: str = ""


class TaskFailed(RuntimeError):
    """A task raised in its worker; the message is the traceback."""


def expect_interpreter() -> None:
    """Let no session of this process warn of the interpreter: here it is a ring, and reported."""
    from fast.errors import Interpreted

    warnings.filterwarnings("ignore", category=Interpreted)


def _serve(pipe: Connection, note: Path) -> None:
    """Take tasks and hand back their results until the pipe is closed; runs in a worker."""
    import torch

    torch.set_num_threads(1)
    expect_interpreter()
    notes.keep_in(note)
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        notes.at("")
        try:
            pipe.send((True, function(*arguments)))
        except Exception:
            pipe.send((False, traceback.format_exc()))


class Worker:
    """A process, the pipe to it, and the number of the task that it is at."""

    def __init__(self, note: Path) -> None:
        """Start the process, deaf to Ctrl-C from its first moment."""
        context = multiprocessing.get_context("spawn")
        self.note = note
        self.task: int | None = None
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, note), daemon=True)
        with _uninterrupted():
            # A child inherits what is blocked.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self.process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def result(self) -> Any:
        """Return what came of the task; a `Died` where the process ended instead."""
        try:
            fine, found = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return Died(_ending(self.process.exitcode), notes.last_of(self.note))
        if not fine:
            raise TaskFailed(found)
        return found

    def end(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let what interrupts wait: a process that is half started complains of its missing half.

    Only the main thread is interrupted, and only it may say what happens then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    stops = (signal.SIGINT, signal.SIGTERM)
    before = {
        stop: signal.signal(stop, lambda number, frame: heard.append(number)) for stop in stops
    }
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
    for number in heard:
        signal.raise_signal(number)


def _ending(code: int | None) -> str:
    """Say how a process ended."""
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"exited with code {code}"


def spread(
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    jobs: int,
    started: Callable[[int], None] = lambda number: None,
) -> Generator[tuple[int, Any], None, None]:
    """Yield the number and the result of each call, in the order in which they end.

    With one job, all run in this process. `started` is told the number of a call that begins.
    """
    if jobs <= 1 or len(calls) <= 1:
        for number, arguments in enumerate(calls):
            started(number)
            yield number, function(*arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        pool = _Pool(function, calls, min(jobs, len(calls)), started, Path(folder))
        try:
            yield from pool.results()
        finally:
            pool.end()


class _Pool:
    """The workers of one `spread`, and what is still to be done."""

    def __init__(
        self,
        function: Callable[..., Any],
        calls: Sequence[tuple[Any, ...]],
        jobs: int,
        started: Callable[[int], None],
        folder: Path,
    ) -> None:
        self.function, self.calls, self.jobs = function, calls, jobs
        self.started, self.folder = started, folder
        self.waiting = deque(range(len(calls)))
        self.deaths: Counter[int] = Counter()
        self.workers: list[Worker] = []
        self.born = 0

    def results(self) -> Iterator[tuple[int, Any]]:
        """Hand out tasks and yield results until there are none."""
        while self.waiting or any(worker.task is not None for worker in self.workers):
            self._hand_out()
            busy = {worker.pipe: worker for worker in self.workers if worker.task is not None}
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                number, worker.task = worker.task, None
                assert number is not None
                found = worker.result()
                if isinstance(found, Died):
                    self._bury(worker, number)
                    if self.deaths[number] < TRIES:
                        continue
                yield number, found

    def _hand_out(self) -> None:
        """Give every idle worker a task, and start workers while there are tasks for them."""
        while self.waiting:
            idle = next((worker for worker in self.workers if worker.task is None), None)
            if idle is None:
                if len(self.workers) == self.jobs:
                    return
                idle = Worker(self.folder / str(self.born))
                self.born += 1
                self.workers.append(idle)
            number = self.waiting.popleft()
            idle.task = number
            self.started(number)
            # Where the worker has died meanwhile, its closed pipe says so in `results`.
            with contextlib.suppress(BrokenPipeError):
                idle.pipe.send((self.function, self.calls[number]))

    def _bury(self, worker: Worker, number: int) -> None:
        """Take note of a death; the task waits for a fresh process, last in the queue."""
        worker.end()
        self.workers.remove(worker)
        self.deaths[number] += 1
        if self.deaths[number] < TRIES:
            self.waiting.append(number)

    def end(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.end()
