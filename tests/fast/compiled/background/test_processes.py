"""The process that compiles beside a session: nobody waits for it, and it is never left behind.

But for the test that compiles, what it runs is a stub.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from fast import CompiledSession, Session
from fast.compiled import artifacts, inductor, naming, progress
from fast.compiled.background import compiler, graphs, patient
from tools.engine_features import X, parameters, squares
from tools.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("inductor")]

LONG = 600.0
"""The seconds after which a process that is waited for is given up."""

SLEEPS = "import subprocess; subprocess.run(['sleep', '600'])"
"""A stub that has started another program, as a compilation has."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path))
    return tmp_path / "artifacts"


def steps(session: Any, params: list[Any], count: int, data: Any = X) -> list[torch.Tensor]:
    found = []
    for _ in range(count):
        loss = session.run(squares, params, [data])
        session.sgd_step(2.0**-5, session.backward(loss))
        found += [session.value(loss), *(p.value() for p in params)]
        for p in params:
            p.set((p.value().clamp(-4, 4) * 4).round() / 4)
    return found


def started(engine: str | None = "auto") -> tuple[Any, list[Any]]:
    session = Session("aten") if engine is None else CompiledSession("aten", engine=engine)
    return session, parameters(session)


def replays(session: Any, params: list[Any]) -> bool:
    """Say whether some more steps are an eager session's, bit for bit."""
    eager, others = started(None)
    for one, other in zip(params, others, strict=True):
        other.set(one.value())
    return all(map(torch.equal, steps(session, params, 5), steps(eager, others, 5)))


def work_of(session: Any) -> list[Any]:
    return [work.process for work in session._compiler._work]


def alive(group: int) -> bool:
    """Say whether a process of a group runs; one that is dead and not yet waited for does not."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, own = entry.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(own) == group and state != "Z":
            return True
    return False


def gone(group: int) -> bool:
    """Wait until no process of a group runs."""
    end = time.monotonic() + LONG
    while alive(group) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(group)


def test_a_process_compiles_and_the_session_changes_over(
    cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    session, params = started()
    end = time.monotonic() + LONG
    while not (session.engines and session.engines[-1][0] == "inductor"):
        assert time.monotonic() < end and replays(session, params)
        time.sleep(0.2)
    assert [name for name, _ in session.engines] == ["replay", "inductor"]
    assert replays(session, params) and not work_of(session)
    assert capfd.readouterr().err.count("\n") == 1
    assert len([*cache.glob("*.artifact")]) == 1
    other, own = started()
    steps(other, own, 3)
    assert other.engines == (("replay", 2), ("inductor", 1)), "it is found where it was left"


def test_nobody_waits_and_the_process_ends_with_its_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler, "START", SLEEPS)
    session, params = started()
    assert replays(session, params) and replays(session, params)
    (process,) = work_of(session)
    assert process.poll() is None and alive(process.pid)
    assert session.engines == (("replay", 10),)
    del session, params
    gc.collect()  # A session and its tape know each other.
    assert gone(process.pid) and process.poll() is not None


@pytest.mark.parametrize(
    ("stub", "said"),
    [
        ("import sys; print('no room', file=sys.stderr); sys.exit(3)", "no room"),
        ("import os; os.kill(os.getpid(), 9)", "the process that compiled it ended with -9"),
        ("", "an artifact that was made is no longer there"),
    ],
)
def test_what_cannot_be_compiled_is_said_once_and_fails_no_step(
    stub: str, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiler, "START", stub)
    session, params = started()
    steps(session, params, 3)
    steps(session, params, 3, X[:2])
    for process in work_of(session):
        process.wait()
    steps(session, params, 2, X[:2])
    assert replays(session, params) and replays(session, params)
    assert capfd.readouterr().err == f"engine: auto stays with replay: {said}\n"
    assert session.engines == (("replay", 18),) and not work_of(session)
    assert replays(session, params[::-1][::-1]), "what is recorded later is not asked for"


def test_a_compiler_that_is_missing_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "g++-that-is-not-here")
    session, params = started()
    assert replays(session, params)
    (line,) = capfd.readouterr().err.splitlines()
    assert "stays with replay" in line and "g++-that-is-not-here is not on the PATH" in line


def test_where_it_can_never_compile_it_says_so_and_replays(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with progress.quiet(True):
        CompiledSession("triton", device="cpu", engine="auto")
    assert not capfd.readouterr().err
    session = CompiledSession("triton", device="cpu", engine="auto")
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("engine: auto stays with replay: engine 'inductor': it compiles")
    steps(session, parameters(session), 2)
    assert session.engines == (("replay", 2),)


def test_a_trace_that_fails_fails_no_step(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(inductor, "traced", broken)
    session, params = started()
    assert replays(session, params)
    assert capfd.readouterr().err == "engine: auto stays with replay: NotImplementedError\n"


ENDS = """
import sys, time
from fast.compiled.background import compiler
from tests.fast.compiled.background.test_processes import started, steps, work_of
compiler.START = sys.argv[2]
session, params = started()
steps(session, params, 3)
print(work_of(session)[0].pid, flush=True)
if sys.argv[1] == "wait":
    time.sleep(600)
"""

WATCHES = """
import subprocess, sys
from fast.compiled import artifacts
from fast.compiled.background import worker
artifacts.fetch = lambda key, make: subprocess.run(["sleep", "600"])
print("begun", file=sys.stderr, flush=True)
worker.main(int(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "end",
    [
        "at its end",
        signal.SIGKILL,
        *(pytest.param(s, marks=pytest.mark.full) for s in (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_no_process_is_left_behind(end: Any) -> None:
    """However the process of a session ends; one that is killed tidies nothing up itself."""
    stub = WATCHES if end in (signal.SIGTERM, signal.SIGKILL) else SLEEPS
    with subprocess.Popen(
        [sys.executable, "-c", ENDS, "go" if end == "at its end" else "wait", stub],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        group = int(process.stdout.readline())
        if end != "at its end":
            assert alive(group)
            process.send_signal(end)
        process.wait()
    assert gone(group)


def odd(x: torch.Tensor, y: torch.Tensor, count: torch.Tensor) -> list[torch.Tensor]:
    """What a pickled graph module loses: constants, names, and what takes no argument."""
    labels = torch.tensor([0, 1])
    loss = torch.nn.functional.cross_entropy(x @ y, labels)
    return [loss, count + 1, torch.arange(5), x.to(torch.bfloat16).sum().float(), loss.sum()]


def test_a_graph_that_is_read_is_the_one_that_was_written() -> None:
    given = [torch.ones(3, 2).T, torch.ones(3, 2), torch.tensor(3)]
    graph = inductor.traced(odd, given)
    found, kinds = graphs.read(graphs.written(graph, given))
    assert str(found.graph) == str(graph.graph)
    assert naming.key(found, "x", kinds) == naming.key(graph, "x", given)
    for ours, theirs in zip(found(*given), graph(*given), strict=True):
        assert torch.equal(ours, theirs)


def test_a_step_asks_for_a_process_and_traces_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler, "START", SLEEPS)
    traced: list[object] = []
    trace = inductor.traced

    def counted(*given: Any) -> Any:
        traced.append(given)
        return trace(*given)

    monkeypatch.setattr(inductor, "traced", counted)
    session, params = started()
    steps(session, params, 20)
    assert len(traced) == 1
    assert isinstance(next(iter(session._plans.values())).lowered, patient.Patient)
