"""Training through the engine that compiles: two thousand steps, every hundredth of them judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from equivalence.cli import main
from equivalence.training.judge import judge_tasks, tasks_of
from fast.commands.digits import check_libraries, held_out_fifth
from fast.commands.job import Job
from fast.commands.loop import train
from fast.commands.recorder import Recorder
from fast.compiled import artifacts, lowered
from fast.device.counters import counters
from fast.errors import Unavailable
from fast.session import Session
from tests.equivalence.training.test_steps import record

EPOCHS, EVERY = 46, 100

PAGE = 4096
GROWTH = 8 * 2**20
"""Fewer bytes than a leak of one gradient arena in four steps would leave."""


def test_a_run_says_which_engine_has_taken_its_steps(tmp_path: Path, capsys: Any) -> None:
    record(tmp_path)
    line = ["judge", str(tmp_path), "--jobs", "0", "--engine", "inductor"]
    assert main(line) == 2
    assert "does not say which engine has taken them; leave" in capsys.readouterr().err
    path = tmp_path / "steps" / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    for engine, code in (("inductor", 0), ("replay", 2)):
        path.write_text(json.dumps({**manifest, "engine": engine}), encoding="utf-8")
        assert main(line) == code
    said = capsys.readouterr()
    assert said.out.startswith("recorded steps, taken by the engine inductor\n")
    assert "says that the engine replay has; leave the option out" in said.err


def test_a_kept_step_is_looked_at_only_after_its_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        check_libraries()
    except Unavailable:
        pytest.skip("scikit-learn has the digits")
    called: list[str] = []

    def noted(name: str) -> None:
        own = getattr(Session, name)

        def run(self: Any, *given: Any, **more: Any) -> Any:
            called.append(name)
            return own(self, *given, **more)

        monkeypatch.setattr(Session, name, run)

    for name in ("backward", "value", "adamw_step"):
        noted(name)
    recorder = Recorder(tmp_path, 2)
    job = Job(provider="aten", interpreter="compiled", epochs=1, batch_size=700)
    train(job, held_out_fifth().train, recorder=recorder)
    recorder.finish(job, "aten")
    assert called[:3] == ["backward", "adamw_step", "value"]
    assert json.loads((tmp_path / "steps" / "manifest.json").read_text())["engine"] == "replay"


def resident() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * PAGE


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.xdist_group("inductor")
def test_two_thousand_steps_stay_within_budget_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path / "cache"))
    whole: list[Any] = []
    step = lowered.Lowered.step

    def counted(self: Any, seeded: int, given: Any, sums: Any, update: Any) -> Any:
        whole.append(update is not None)
        return step(self, seeded, given, sums, update)

    monkeypatch.setattr(lowered.Lowered, "step", counted)
    split, weighed, resided = held_out_fifth(), [], []

    def watch(number: int, loss: float, engine: str | None) -> None:
        if number % EVERY == 0:
            found = counters.snapshot()
            weighed.append((found.live_bytes, found.live_buffers))
            resided.append(resident())

    job = Job(provider="aten", interpreter="compiled", engine="inductor", epochs=EPOCHS)
    total = job.steps(len(split.train[0]))
    recorder = Recorder(tmp_path, total // EVERY + 1)
    trained = train(job, split.train, watch, recorder)
    recorder.finish(job, trained.provider)
    assert total >= 2000 and whole == [True] * total, "each step is one artifact, kept ones too"
    assert len(set(weighed)) == 1
    assert resided[-1] - resided[3] < GROWTH
    tasks = [task for task in tasks_of(tmp_path, "inductor") if task[2] == "aten"]
    judged = [verdict for _, verdict in judge_tasks(tasks, 1)]
    assert len(judged) == total // EVERY + 1
    assert all(verdict.conformant for verdict in judged)
    print("worst fraction of budget", max(verdict.worst or 0.0 for verdict in judged))
    eager = train(Job(provider="aten", epochs=EPOCHS), split.train)
    right = [
        job.network.accuracy(run.values, split.test) * len(split.test[1])
        for run in (trained, eager)
    ]
    print("right of", len(split.test[1]), "images, and by the eager session:", *map(round, right))
    assert abs(round(right[0]) - round(right[1])) <= 1
