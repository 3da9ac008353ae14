"""A worker ends with its caller, and nothing that it does to its group reaches the caller."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import equivalence.workers.pool as pool
from equivalence.workers import notes
from equivalence.workers.executor import Executor, Question
from equivalence.workers.pool import Died, spread
from tools.tree import ROOT

pytestmark = pytest.mark.slow

ABANDONED = """
import sys
from tests.equivalence.workers import test_bound
from equivalence.workers.pool import spread
list(spread(getattr(test_bound, sys.argv[2]), [(sys.argv[1],)], 1))
"""
"""A script without a guard for processes that import it."""


def sleep_in_a_library(folder: str) -> int:
    """Write down the id twice, and never return to Python: no other thread runs either."""
    (Path(folder) / "part").write_text(f"{os.getpid()} {os.getpid()}", encoding="utf-8")
    (Path(folder) / "part").rename(Path(folder) / "ids")
    ctypes.PyDLL(None).sleep(600)
    return 0


def hang(folder: str) -> int:
    """Start a process, write down both ids, and never return."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (Path(folder) / "part").write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    (Path(folder) / "part").rename(Path(folder) / "ids")
    while True:
        time.sleep(1)


def end_own_group(number: int) -> int:
    """End every process of the group."""
    os.killpg(0, signal.SIGKILL)
    return number


def leave_a_lie(number: int) -> int:
    """Return what is not of the type that is said."""
    return "none"  # type: ignore[return-value]


def say_that_no_call_runs(number: int) -> list[int | notes.Ended]:
    """Hang in a call of a backend that says it has ended."""

    def put() -> int:
        with notes.calling():
            notes._kept.since.value = 0.0  # type: ignore[union-attr]
            while True:
                time.sleep(0.01)

    return [Executor().ask(Question("a", "the call", put))]


def running(number: int) -> bool:
    """Say whether a process runs; one that ended and was not asked after does not."""
    try:
        status = Path(f"/proc/{number}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def waited(answer: object, seconds: float = 60.0) -> bool:
    """Wait until a question has the answer yes."""
    end = time.monotonic() + seconds
    while not answer():  # type: ignore[operator]
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("task", ["hang", "sleep_in_a_library"])
def test_a_worker_ends_with_a_caller_that_was_killed(task: str, tmp_path: Path) -> None:
    script = tmp_path / "caller.py"
    script.write_text(ABANDONED, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    caller = subprocess.Popen([sys.executable, str(script), str(tmp_path), task], env=environment)
    try:
        assert waited((tmp_path / "ids").exists)
        worker, _ = map(int, (tmp_path / "ids").read_text(encoding="utf-8").split())
        assert running(worker)
    finally:
        caller.kill()
        caller.wait()
    assert waited(lambda: not running(worker), 20)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_worker_started_ends_with_it(tmp_path: Path) -> None:
    worker = pool.Worker()
    worker.begin(hang, (str(tmp_path),), tmp_path / "note")
    try:
        assert waited((tmp_path / "ids").exists)
        ids = [*map(int, (tmp_path / "ids").read_text(encoding="utf-8").split())]
    finally:
        worker.end()
    assert waited(lambda: not any(map(running, ids)), 20)


def test_a_worker_that_ends_its_group_ends_alone() -> None:
    (died,) = dict(spread(end_own_group, [(1,)], 1)).values()
    assert died == Died("was ended by SIGKILL", outside=True)


def test_a_result_of_another_type_is_refused() -> None:
    (died,) = dict(spread(leave_a_lie, [(1,)], 1)).values()
    assert died == Died("sent what is no result: expected int, got 'none'")


def test_a_call_is_late_though_its_process_says_that_none_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "LONGEST", 1.0)
    found = dict(spread(say_that_no_call_runs, [(1,)], 1, limit=0.1))
    assert found == {0: [notes.Ended("took longer than 0.1 s", late=True)]}
