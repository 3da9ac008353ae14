"""Tasks in parallel: worker processes that each take the next task, and never outlive the pool.

The result of a task depends on nothing but its arguments, so the number of workers changes only the
time. A worker that dies (a kernel's store outside its memory can do that), or whose call of a
backend takes longer than the limit, costs the question that it was at: a fresh process goes on
behind it, by the notes that the worker had left (`equivalence.workers.notes`).
What was at no question is tried again from the start, and the second death is its result.
Workers hear no Ctrl-C: it ends the caller's loop, and leaving that loop, however, ends them.
A worker runs code of strangers, so it has a process group of its own, which ends with it and with
the caller, and the caller reads what it sends as data (`equivalence.workers.data`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from equivalence.workers import data, notes, warned
from equivalence.workers.born import context, deaf_to_interrupts, started
from equivalence.workers.bound import bind, end_group

TRIES = 2
"""How often a task may lose its process without a question of its own to blame."""

FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
"""How a process ends that another one ended, such as the kernel's where memory is short: the
question that it was at gets a second try."""

WARNINGS = "warnings"
"""The file beside the notes in which workers collect warnings."""

GLANCE = 0.25
"""How often a pool with a limit looks at its workers, in seconds at most."""

PATIENCE, LONGEST = 10, 600.0
"""A question ends its process after so many limits of one call, and after so many seconds at least,
whatever the process says of its calls: a stranger's code could say that none runs."""


@dataclass(frozen=True, slots=True)
class Died:
    """A task's process ended before the task did: how, and at which noted case.

    outside says that another process ended it.
    """

    how: str
    at: str = ""
    outside: bool = False


class TaskFailed(RuntimeError):
    """A task raised in its worker; the message is the traceback."""


def expect_interpreter() -> None:
    """Let no session of this process warn of the interpreter: here it is a ring, and reported."""
    from fast.errors import Interpreted

    warnings.filterwarnings("ignore", category=Interpreted)


def _serve(pipe: Connection, since: notes.Mark, environment: dict[str, str]) -> None:
    """Take tasks and hand back their results until the pipe is closed; runs in a worker."""
    bind()
    os.environ.clear()
    os.environ.update(environment)
    import torch

    torch.set_num_threads(1)
    expect_interpreter()
    while True:
        try:
            function, arguments, note = pipe.recv()
        except EOFError:
            return
        notes.keep_in(note, since)
        warned.collect(note.with_name(WARNINGS))
        try:
            answer = data.written((True, data.plain(function(*arguments))))
        except Exception:
            answer = data.written((False, traceback.format_exc()))
        pipe.send_bytes(answer)


def _work(pipe: Connection, since: notes.Mark, environment: dict[str, str]) -> None:
    """Serve, and end without a word where the caller has ended: nobody is left to be told."""
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        _serve(pipe, since, environment)


class Worker:
    """A process, the pipe to it, the number of the task that it is at, and the last one's kind."""

    def __init__(self) -> None:
        """Start the process, deaf to Ctrl-C from its first moment."""
        made = context()
        self.task: int | None = None
        self.last: object = None
        self.form: Any = Any
        self.note = Path()
        self.noted = 0
        self.changed = 0.0
        self.since = made.RawValue("d", 0.0)
        self.pipe, theirs = made.Pipe()
        arguments = theirs, self.since, dict(os.environ)
        self.process = made.Process(target=_work, args=arguments, daemon=True)
        with _uninterrupted(), deaf_to_interrupts(), started():
            self.process.start()
        theirs.close()

    def begin(self, function: Callable[..., Any], arguments: tuple[Any, ...], note: Path) -> None:
        """Send a task, and remember what form its result has and where its notes are."""
        self.form, self.note = data.returned(function), note
        self.noted, self.changed = _size(note), 0.0
        # Where the worker has died meanwhile, its closed pipe says so in `result`.
        with contextlib.suppress(BrokenPipeError):
            self.pipe.send((function, arguments, note))

    def result(self) -> Any:
        """Return what came of the task; a `Died` where the process ended instead."""
        try:
            fine, found = data.made(tuple[bool, Any], data.read(self.pipe.recv_bytes()))
            if fine:
                return data.made(self.form, found)
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode
            return Died(_ending(code), outside=code in FROM_OUTSIDE)
        except data.NotOfForm as error:
            return Died(f"sent what is no result: {error}")
        raise TaskFailed(str(found))

    def late(self, limit: float) -> bool:
        """Say whether a call of a backend has run for longer than a limit, in seconds.

        The worker says when a call began. How long a question has had no answer is seen from here.
        """
        since: float = self.since.value
        now = time.monotonic()
        size = _size(self.note)
        if size != self.noted:
            self.noted, self.changed = size, now
        silent = bool(self.changed) and now - self.changed > max(PATIENCE * limit, LONGEST)
        return silent or (bool(since) and now - since > limit)

    def end(self) -> None:
        """End the process at once, and whatever it has started."""
        end_group(self.process.pid)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _size(path: Path) -> int:
    """Return how many bytes a file has; one that is not there has none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


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
    limit: float | None = None,
    alike: Callable[[int], object] = lambda number: None,
) -> Generator[tuple[int, Any], None, None]:
    """Yield the number and the result of each call, in the order in which they end.

    With no jobs, all run in this process. `started` is told the number of a call that begins.
    limit is how long a call of a backend may take, in seconds. alike names what a call has in
    common with others, which one worker then does in turn: it may remember what they share.
    """
    if jobs < 1:
        for number, arguments in enumerate(calls):
            started(number)
            yield number, function(*arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        pool = _Pool(function, calls, min(jobs, len(calls)), started, Path(folder), limit, alike)
        try:
            yield from pool.results()
        finally:
            pool.end()
            warned.tell(Path(folder) / WARNINGS)


class _Pool:
    """The workers of one `spread`, and what is still to be done."""

    def __init__(
        self,
        function: Callable[..., Any],
        calls: Sequence[tuple[Any, ...]],
        jobs: int,
        started: Callable[[int], None],
        folder: Path,
        limit: float | None,
        alike: Callable[[int], object],
    ) -> None:
        self.function, self.calls, self.jobs = function, calls, jobs
        self.started, self.folder, self.limit, self.alike = started, folder, limit, alike
        self.waiting = deque(range(len(calls)))
        self.deaths: Counter[int] = Counter()
        self.retried: set[tuple[int, str]] = set()
        self.workers: list[Worker] = []

    def results(self) -> Iterator[tuple[int, Any]]:
        """Hand out tasks and yield results until there are none."""
        glance = None if self.limit is None else min(GLANCE, self.limit / 4)
        while self.waiting or any(worker.task is not None for worker in self.workers):
            self._hand_out()
            busy = {worker.pipe: worker for worker in self.workers if worker.task is not None}
            ready = [busy[pipe] for pipe in wait(list(busy), glance)]  # type: ignore[index]
            for worker in ready:
                number, found = worker.task, worker.result()
                worker.task = None
                assert number is not None
                if isinstance(found, Died) and not (found := self._bury(worker, number, found)):
                    continue
                yield number, found
            for worker in [w for w in busy.values() if w not in ready]:
                if self.limit is not None and worker.late(self.limit):
                    number = worker.task
                    assert number is not None
                    how = f"took longer than {self.limit:g} s"
                    if found := self._bury(worker, number, Died(how), late=True):
                        yield number, found

    def _hand_out(self) -> None:
        """Give every idle worker a task, and start workers while there are tasks for them."""
        while self.waiting:
            idle = next((worker for worker in self.workers if worker.task is None), None)
            if idle is None:
                if len(self.workers) == self.jobs:
                    return
                idle = Worker()
                self.workers.append(idle)
            number = self._next(idle)
            self.waiting.remove(number)
            idle.task, idle.last = number, self.alike(number)
            self.started(number)
            idle.begin(self.function, self.calls[number], self._note(number))

    def _next(self, worker: Worker) -> int:
        """Choose a task: one like the worker's last, else one like which nobody has any."""
        others = [other.last for other in self.workers if other is not worker]

        def strangeness(number: int) -> int:
            kind = self.alike(number)
            return 0 if kind == worker.last else 2 if kind in others else 1

        return min(self.waiting, key=strangeness)

    def _note(self, number: int) -> Path:
        """Return the file of a task's notes."""
        return self.folder / str(number)

    def _bury(self, worker: Worker, number: int, died: Died, late: bool = False) -> Died | None:
        """Take note of a death; unless it is the task's result, it waits for a fresh process."""
        worker.end()
        self.workers.remove(worker)
        left = notes.read(self._note(number))
        if left.open is None:
            self.deaths[number] += 1
            if self.deaths[number] == TRIES:
                return replace(died, at=left.last)
        elif died.outside and (number, left.open) not in self.retried:
            self.retried.add((number, left.open))
        else:
            notes.end(self._note(number), notes.Ended(died.how, late))
        self.waiting.append(number)
        return None

    def end(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.end()
