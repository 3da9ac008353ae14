"""The engines of a run of the training command: each step names the one that took it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast import checkpoint
from fast.__main__ import main
from fast.commands import loop
from fast.commands.loop import Job, train
from fast.commands.resume import Checkpoints
from fast.compiled import artifacts, inductor
from fast.compiled.background.compiler import Compiler

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("inductor")]

Asked = dict[str, Callable[[], bytes]]
JOB = Job("aten", interpreter="compiled", engine="auto", hidden=4, epochs=4, batch_size=4)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    """Note what is to be compiled; what a test removes from here has been."""
    found: Asked = {}

    def start(self: Compiler, key: str, graph: Any, given: Any) -> None:
        found[key] = lambda: inductor.built(graph, given)

    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(Compiler, "start", start)
    monkeypatch.setattr(Compiler, "ready", lambda self, key: key not in found)
    return found


def images() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.uniform(0, 1, (20, 64)).astype(np.float32), draw.integers(0, 10, 20)


def test_every_step_and_checkpoint_of_the_command_names_the_engine(
    tmp_path: Path, asked: Asked
) -> None:
    def run(out: str, *options: str) -> list[dict[str, Any]]:
        common = ["train", "digits", "--folds", "0", "--quiet", "--hidden", "4", "--epochs", "1"]
        folder = tmp_path / out
        common += ["--batch-size", "256", "--provider", "aten", "--out", str(folder)]
        assert main([*common, *options]) == 0
        rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        return [row for row in rows if row["event"] == "step"]

    compiled = ("--interpreter", "compiled")
    file = tmp_path / "c"
    auto = run("auto", *compiled, "--engine", "auto", "--checkpoint", str(file))
    replay, eager = run("replay", *compiled), run("eager")
    assert auto == replay and asked, "until an artifact arrives the steps are a replay's"
    assert [row["engine"] for row in auto] == ["replay"] * 5
    assert [row["loss"] for row in auto] == [row["loss"] for row in eager]
    assert not any("engine" in row for row in eager)
    session, _ = loop.begin(JOB)
    checkpoint.load(file, session)
    assert session.engines == (("replay", 5),)  # type: ignore[attr-defined]


@pytest.mark.full
def test_a_run_that_changes_over_and_is_resumed_knows_who_took_its_steps(
    tmp_path: Path, asked: Asked
) -> None:
    engines: list[Any] = []

    def watch(step: int, loss: float, engine: str | None) -> None:
        engines.append(engine)
        if step == 7:
            for key, make in [*asked.items()]:
                artifacts.fetch(key, make)
                del asked[key]

    file = tmp_path / "c"
    whole = train(JOB, images(), watch, checkpoints=Checkpoints(file, every=10))
    assert engines == ["replay"] * 7 + ["inductor"] * 13
    session, _ = loop.begin(JOB)
    extra = checkpoint.load(file, session)
    assert extra["engine"] == "auto" and session.engines == (  # type: ignore[attr-defined]
        ("replay", 7),
        ("inductor", 13),
    )
    longer = Job(**{**JOB.__dict__, "epochs": 5})
    rest = train(longer, images(), watch, checkpoints=Checkpoints(file, resume=file))
    assert len(whole.losses) == 20 and len(rest.losses) == 5
    checkpoint.load(file, session)
    assert session.engines == (  # type: ignore[attr-defined]
        ("replay", 7),
        ("inductor", 13),
        ("replay", 2),
        ("inductor", 3),
    )
