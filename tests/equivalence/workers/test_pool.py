"""Workers: a task that kills its process costs itself alone, and no process outlives its pool."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from equivalence.workers import notes
from equivalence.workers.executor import MOST_IN_ALL, Executor, LeftOut, Question, TooManyEnded
from equivalence.workers.pool import Died, TaskFailed, Worker, spread
from tools.tree import ROOT

pytestmark = pytest.mark.slow


def double_or_die(number: int, deadly: int) -> int:
    """Double a number; one of them ends its process as a wild store does."""
    notes.at(f"the number {number}")
    if number == deadly:
        os.kill(os.getpid(), signal.SIGSEGV)
    return 2 * number


def die_once(mark: str) -> str:
    """End the process at the first try."""
    if not Path(mark).exists():
        Path(mark).write_text("tried", encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def raising(number: int) -> int:
    """Raise."""
    raise KeyError(number)


def own_id(number: int) -> int:
    """Return the id of the process that it runs in."""
    return os.getpid()


def alive(number: int) -> bool:
    """Say whether a process is there."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_dying_worker_costs_one_task_and_names_the_case_it_was_at() -> None:
    begun: list[int] = []
    calls = [(number, 2) for number in range(4)]
    found = dict(spread(double_or_die, calls, 2, begun.append))
    assert found.pop(2) == Died("was ended by SIGSEGV", "the number 2")
    assert found == {0: 0, 1: 2, 3: 6}
    assert sorted(begun) == [0, 1, 2, 2, 3]


def test_a_task_whose_process_died_is_tried_again(tmp_path: Path) -> None:
    marks = [(str(tmp_path / name),) for name in ("a", "b")]
    assert dict(spread(die_once, marks, 2)) == {0: "done", 1: "done"}


def test_an_exception_comes_back_with_its_traceback() -> None:
    with pytest.raises(TaskFailed, match=r"raise KeyError\(number\)"):
        list(spread(raising, [(1,), (2,)], 2))


def test_without_jobs_all_runs_here() -> None:
    assert dict(spread(own_id, [(1,), (2,)], 0)) == {0: os.getpid(), 1: os.getpid()}


def answers(folder: str, deadly: dict[int, str]) -> list[int | notes.Ended]:
    """Ask five questions, some of which end the process or hang; count how often each is put."""

    def put(number: int) -> int:
        with (Path(folder) / str(number)).open("a", encoding="utf-8") as file:
            file.write("x")
        how = deadly.get(number, "")
        if how == "exits":
            os._exit(7)
        with notes.calling():
            while how == "hangs":
                time.sleep(0.01)
        return number

    executor = Executor()
    questions = [Question(f"{k}", f"number {k}", partial(put, k)) for k in range(5)]
    return [executor.ask(question) for question in questions]


def test_a_fresh_process_goes_on_behind_the_question_that_one_ended_at(tmp_path: Path) -> None:
    deadly = {1: "exits", 3: "hangs"}
    found = dict(spread(answers, [(str(tmp_path), deadly)], 1, limit=0.4))
    exited = notes.Ended("exited with code 7")
    late = notes.Ended("took longer than 0.4 s", late=True)
    assert found == {0: [0, exited, 2, late, 4]}
    put = [(tmp_path / str(number)).stat().st_size for number in range(5)]
    assert put == [1, 1, 1, 1, 1]


def test_notes_are_read_as_far_as_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    ask = Executor().ask
    try:
        notes.keep_in(path)
        assert ask(Question("a", "the first", lambda: 1)) == 1
        with pytest.raises(KeyError):
            ask(Question("b", "the second", {}.popitem))
    finally:
        notes.keep_none()
    with path.open("ab") as file:
        file.write(b'["answer", "b", ')
    left = notes.read(path)
    assert (left.answers, left.open, left.last) == ({"a": 1}, "b", "the second")
    notes.end(path, notes.Ended("exited"))
    assert notes.read(path).answers == {"a": 1, "b": notes.Ended("exited")}


def test_an_answer_is_found_in_the_notes_and_no_new_question_follows_too_many_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = notes.Ended("exited")
    known = {"a": 1, **{f"ended {k}": ended for k in range(MOST_IN_ALL)}}
    monkeypatch.setattr(notes, "answers", lambda: known)
    executor = Executor()

    def ask(text: str) -> object:
        return executor.ask(Question(text, text, lambda: 2, alike=text))

    assert (ask("a"), ask("b")) == (1, 2)
    assert [ask(text) for text in [*known][1:]] == [ended] * MOST_IN_ALL
    assert ask("ended 0") == ended, "what is known to have ended a process is answered all the same"
    with pytest.raises(TooManyEnded, match="nothing more was asked, as 12 processes have ended"):
        ask("c")


def test_after_three_ends_nothing_is_put_that_is_like_one_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = notes.Ended("exited")
    known = {"a": ended, "b": ended, "c": ended}
    monkeypatch.setattr(notes, "answers", lambda: known)
    executor = Executor()

    def ask(text: str, alike: str) -> object:
        return executor.ask(Question(text, text, lambda: 2, alike=alike))

    assert (ask("a", "large"), ask("d", "large"), ask("b", "high")) == (ended, 2, ended)
    assert ask("c", "high") == ended and executor.exhausted
    for alike in ("large", "high", "high"):
        with pytest.raises(LeftOut, match="e"):
            ask("e", alike)
    assert ask("e", "small") == 2
    assert executor.left_out == {"large": 1, "high": 2}


def meets(folder: str, name: str, other: str) -> int:
    """Return the id of the process, once another task has begun; without it after a while."""
    (Path(folder) / name).touch()
    end = time.monotonic() + 20
    while not (Path(folder) / other).exists() and time.monotonic() < end:
        time.sleep(0.01)
    return os.getpid()


def test_tasks_that_are_alike_go_to_one_worker(tmp_path: Path) -> None:
    # Each waits for the one of the other kind, so that no worker can be ahead by more than one.
    names = ["a0", "a1", "a2", "b0", "b1", "b2"]
    calls = [(str(tmp_path), name, ("b" if name[0] == "a" else "a") + name[1]) for name in names]
    found = dict(spread(meets, calls, 2, alike=lambda number: names[number][0]))
    owners = {kind: {found[k] for k, n in enumerate(names) if n[0] == kind} for kind in "ab"}
    assert len(owners["a"]) == len(owners["b"]) == 1 and owners["a"] != owners["b"]


def test_an_idle_worker_takes_what_another_one_began(tmp_path: Path) -> None:
    calls = [(str(tmp_path), "first", "second"), (str(tmp_path), "second", "first")]
    found = dict(spread(meets, calls, 2, alike=lambda _: "a"))
    assert len(set(found.values())) == 2


def test_leaving_early_ends_the_workers() -> None:
    with closing(spread(own_id, [(number,) for number in range(9)], 2)) as results:
        _, worker = next(results)
    assert worker != os.getpid() and not alive(worker)


def test_workers_hear_no_interrupt(tmp_path: Path) -> None:
    worker = Worker()
    try:
        os.kill(worker.process.pid or 0, signal.SIGINT)
        worker.begin(own_id, (1,), tmp_path / "note")
        os.kill(worker.process.pid or 0, signal.SIGINT)
        assert worker.result() == worker.process.pid
    finally:
        worker.end()


FIRST = """
from multiprocessing import forkserver
from pathlib import Path
from equivalence.workers.pool import Worker

worker = Worker()
for process in (forkserver._forkserver._forkserver_pid, worker.process.pid):
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    print(int(status.split("SigBlk:")[1].split()[0], 16) >> 1 & 1)
worker.end()
"""


def test_a_server_of_workers_hears_no_interrupt_from_its_start() -> None:
    """Or a worker hears one between its fork and its first line."""
    done = subprocess.run([sys.executable, "-c", FIRST], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["1", "1"], "")


def test_a_process_that_keeps_no_notes_writes_none() -> None:
    notes.at("nothing")
