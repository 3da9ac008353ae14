"""The training command goes on from a checkpoint as if it had never stopped, bit for bit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from fast import Rejected, checkpoint
from fast.__main__ import main
from fast.commands import loop
from fast.commands.job import Job, Trained
from fast.commands.loop import train
from fast.commands.resume import Checkpoints

pytestmark = pytest.mark.slow

JOB = Job(provider="aten", hidden=8, epochs=4, batch_size=4)
EPOCH, TOTAL = 5, 20
"""22 images are five batches of four; two images are left over."""


def images() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.uniform(0, 1, (22, 64)).astype(np.float32), draw.integers(0, 10, 22)


def packed(path: Path) -> dict[str, Any]:
    """Everything in a checkpoint, as bytes and text: parameters, moments, steps, counter, place."""
    with safe_open(path, framework="np") as file:
        tensors = {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118
        return {**tensors, "": json.loads(file.metadata()["contents"])}


def whole(folder: Path) -> tuple[Trained, dict[str, Any]]:
    trained = train(JOB, images(), checkpoints=Checkpoints(folder / "whole"))
    return trained, packed(folder / "whole")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt, also where whoever started the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Stop(Exception):
    """Ends a run between two steps, as a crash would."""


def stop_after(last: int) -> Any:
    def watch(step: int, loss: float, _: str | None) -> None:
        if step == last:
            raise Stop

    return watch


@pytest.mark.parametrize("last", [3, 5, 9, 10, 19])
def test_the_second_half_is_the_same(tmp_path: Path, last: int) -> None:
    trained, everything = whole(tmp_path)
    file = tmp_path / "part"
    with pytest.raises(Stop):
        train(JOB, images(), stop_after(last + 1), checkpoints=Checkpoints(file, every=last))
    assert checkpoint.load(file, loop.begin(JOB)[0])["step"] == last
    resumed = train(JOB, images(), checkpoints=Checkpoints(file, resume=file))
    assert resumed.before == last
    assert resumed.losses == trained.losses[last:]
    assert packed(file) == everything
    for name, value in trained.parameters.items():
        assert value.tobytes() == resumed.parameters[name].tobytes()


def test_more_epochs_are_the_longer_run(tmp_path: Path) -> None:
    trained, everything = whole(tmp_path)
    file, short = tmp_path / "short", Job(**{**JOB.__dict__, "epochs": 2})
    train(short, images(), checkpoints=Checkpoints(file))
    resumed = train(JOB, images(), checkpoints=Checkpoints(file, resume=file))
    assert resumed.losses == trained.losses[2 * EPOCH :] and packed(file) == everything


@pytest.mark.parametrize("first", ["eager", "compiled"])
def test_either_interpreter_goes_on_where_the_other_stopped(tmp_path: Path, first: str) -> None:
    trained, everything = whole(tmp_path)
    second = "compiled" if first == "eager" else "eager"
    jobs = [Job(**{**JOB.__dict__, "interpreter": name}) for name in (first, second)]
    file = tmp_path / "part"
    with pytest.raises(Stop):
        train(jobs[0], images(), stop_after(8), checkpoints=Checkpoints(file, every=7))
    resumed = train(jobs[1], images(), checkpoints=Checkpoints(file, resume=file))
    assert resumed.losses == trained.losses[7:] and packed(file) == everything


def test_an_unknown_interpreter_is_refused() -> None:
    with pytest.raises(Rejected, match=r"one of eager, compiled, got 'graph'"):
        Job(interpreter="graph")


@pytest.mark.parametrize(("every", "kept"), [(0, [5, 10, 15, 20]), (7, [7, 14, 20]), (20, [20])])
def test_checkpoints_are_saved_when_they_should_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, kept: list[int]
) -> None:
    extras: list[Any] = []
    monkeypatch.setattr(checkpoint, "save", lambda path, session, extra: extras.append(extra))
    train(JOB, images(), checkpoints=Checkpoints(tmp_path / "c", every))
    assert [extra["step"] for extra in extras] == kept
    for extra in extras:
        assert extra["epoch"] * EPOCH + extra["position"] == extra["step"]
        assert extra["seed"] == JOB.seed


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("stopped", ["between two steps", "inside a save"])
def test_an_interrupt_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: str
) -> None:
    trained, everything = whole(tmp_path)
    file, flush, flushed = tmp_path / "part", os.fsync, []

    def watch(step: int, loss: float, _: str | None) -> None:
        if stopped == "between two steps" and step == 13:
            signal.raise_signal(signal.SIGINT)

    def interrupted(descriptor: int) -> None:
        flush(descriptor)
        flushed.append(descriptor)
        if stopped == "inside a save" and len(flushed) == 5:  # a file, a folder, and so on
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(JOB, images(), watch, checkpoints=Checkpoints(file))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part", "whole"]
    assert checkpoint.load(file, loop.begin(JOB)[0])["step"] == 10
    resumed = train(JOB, images(), checkpoints=Checkpoints(file, resume=file))
    assert resumed.losses == trained.losses[10:] and packed(file) == everything


def test_another_run_is_not_resumed(tmp_path: Path) -> None:
    file = tmp_path / "c"
    train(JOB, images(), checkpoints=Checkpoints(file))
    longer = {**JOB.__dict__, "epochs": 5}
    for change, message in (
        ({"lr": 0.5}, "was made with lr 0.003, and this run has 0.5"),
        ({"seed": 1}, "was made with seed 0, and this run has 1"),
        ({"batch_size": 5}, "was made with batch_size 4, and this run has 5"),
        ({"provider": "triton"}, "was made with provider 'aten', and this run has 'triton'"),
        ({"hidden": 9}, "param/w1: the session's parameter is"),
        ({"beta2": 0.9}, "optimizers/adamw/w1/beta2: made with 0.999"),
        ({"epochs": 4}, "is at step 20 and 4 epochs are 20 steps, so nothing is left"),
    ):
        with pytest.raises(Rejected, match=message):
            train(Job(**{**longer, **change}), images(), checkpoints=Checkpoints(resume=file))
    x, labels = images()
    with pytest.raises(Rejected, match="was made with data"):
        train(Job(**longer), (x[::-1], labels), checkpoints=Checkpoints(resume=file))
    checkpoint.save(file, loop.begin(JOB)[0])
    with pytest.raises(Rejected, match="was made with task None"):
        train(Job(**longer), images(), checkpoints=Checkpoints(resume=file))


def test_the_command_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(out: str, *options: str) -> int:
        common = ("train", "digits", "--folds", "0", "--quiet", "--hidden", "8", "--batch-size")
        folder = str(tmp_path / out)
        return main([*common, "256", "--provider", "aten", "--out", folder, *options])

    def rows(out: str) -> list[str]:
        return (tmp_path / out / "metrics.jsonl").read_text().splitlines()

    file = str(tmp_path / "c")
    assert run("whole", "--epochs", "2") == 0
    assert run("half", "--epochs", "1", "--checkpoint", file) == 0
    assert run("rest", "--epochs", "2", "--resume", file) == 0
    assert rows("half")[:-1] + rows("rest") == rows("whole")
    assert (tmp_path / "rest" / "loss.png").exists()
    for refused in (
        ("--resume", file, "--epochs", "1"),
        ("--resume", str(tmp_path / "nothing")),
        ("--checkpoint", str(tmp_path / "nowhere" / "c")),
        ("--checkpoint-every", "3"),
        ("--checkpoint", file, "--checkpoint-every", "-3"),
    ):
        assert run("whole", "--overwrite", *refused) == 2
    assert len(rows("whole")) == 11, "a run that cannot start has left the earlier one alone"


@pytest.mark.usefixtures("interruptible")
def test_the_command_says_how_an_interrupted_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take, file = loop.take_step, tmp_path / "c"

    def step(*arguments: Any) -> float:
        if arguments[-2] == 4:
            signal.raise_signal(signal.SIGINT)
        return take(*arguments)

    monkeypatch.setattr(loop, "take_step", step)
    asked = ("--checkpoint", str(file), "--checkpoint-every")
    for k, options in enumerate([(), (*asked, "4"), (*asked, "2")]):
        out = str(tmp_path / str(k))
        common = ["train", "digits", "--epochs", "1", "--batch-size", "256", "--hidden", "8"]
        assert main([*common, "--quiet", "--out", out, *options]) == 130
    first, early, second = capsys.readouterr().err.splitlines()
    assert first == ("interrupted; there is no checkpoint; --checkpoint FILE would have kept one")
    assert early == (
        "interrupted; there is no checkpoint yet: the first would have come after step 4"
    )
    assert second.startswith(f"interrupted; go on with --resume {file}")
    assert packed(file)[""]["extra"]["step"] == 2
