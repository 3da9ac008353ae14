"""Each network is trained, recorded and judged; what becomes of buffers is judged and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from torch import Tensor

from equivalence.cli import main
from equivalence.runs.results import CONFORMANT, NONCONFORMANT, USAGE
from equivalence.training.judge import PARTS, judge_tasks, tasks_of
from equivalence.training.record import NoRecord
from fast.commands.job import Job
from fast.commands.loop import train
from fast.commands.networks import NETWORKS
from fast.commands.recorder import Recorder

BATCH = 4
Tensors = dict[str, Tensor]


def record(run: Path, net: str, count: int = 1) -> None:
    """Record steps of a short run on images of noise."""
    draw = np.random.default_rng(0)
    x = draw.uniform(0, 1, (2 * BATCH, 64)).astype(np.float32)
    job = Job(provider="aten", net=net, hidden=3, epochs=1, batch_size=BATCH, lr=0.01)
    recorder = Recorder(run, count)
    train(job, (x, draw.integers(0, 10, len(x))), recorder=recorder)
    recorder.finish(job, "aten")


@pytest.mark.parametrize("net", NETWORKS)
def test_steps_of_each_network_are_within_budget(net: str, tmp_path: Path) -> None:
    record(tmp_path, net, 2)
    # The kernels take the second step only: it starts from moments and buffers that have moved.
    tasks = [task for task in tasks_of(tmp_path) if task[1:] != (1, "triton")]
    judged = [verdict for _, verdict in judge_tasks(tasks, 0)]
    assert len(judged) == 3 and all(verdict.conformant for verdict in judged)
    buffers = ["buffers"] if NETWORKS[net].buffers(1) else []
    assert all(sorted(verdict.parts) == sorted([*PARTS, *buffers]) for verdict in judged)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    record(folder, "batch_norm")
    return folder


@pytest.fixture
def steps(recorded: Path, tmp_path: Path) -> Path:
    """The folder of the steps in a copy of the run, which a test may damage."""
    (tmp_path / "steps").mkdir()
    for file in (recorded / "steps").iterdir():
        (tmp_path / "steps" / file.name).write_bytes(file.read_bytes())
    return tmp_path / "steps"


def moved(tensors: Tensors, name: str, more: float) -> Tensors:
    """Move a buffer by so many times what the step has moved its own share of the batch."""
    before, after = tensors[f"buffer_before/{name}"], tensors[f"buffer_after/{name}"]
    return {**tensors, f"buffer_after/{name}": (after + more * (after - 0.9 * before)).contiguous()}


def unmoved(name: str) -> Callable[[Tensors], Tensors]:
    return lambda t: {**t, f"buffer_after/{name}": t[f"buffer_before/{name}"].clone()}


def twice(name: str) -> Callable[[Tensors], Tensors]:
    def change(t: Tensors) -> Tensors:
        before, after = t[f"buffer_before/{name}"], t[f"buffer_after/{name}"]
        return {**t, f"buffer_after/{name}": 0.9 * after + (after - 0.9 * before)}

    return change


WRONG: dict[str, tuple[str, Callable[[Tensors], Tensors]]] = {
    "the population variance": ("running_var", lambda t: moved(t, "running_var", -1 / BATCH)),
    "a mean that is not moved": ("running_mean", unmoved("running_mean")),
    "a variance that is not moved": ("running_var", unmoved("running_var")),
    "a mean that is moved twice": ("running_mean", twice("running_mean")),
    "a variance that is moved twice": ("running_var", twice("running_var")),
}


def rewritten(steps: Path, change: Callable[[Tensors], Tensors]) -> Path:
    (path,) = steps.glob("step-*.safetensors")
    save_file(change(load_file(path)), path)
    return steps.parent


@pytest.mark.parametrize("what", WRONG)
def test_wrong_statistics_are_found_in_the_buffers(
    what: str, steps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, change = WRONG[what]
    run = rewritten(steps, change)
    assert main(["judge", str(run), "--jobs", "0"]) == NONCONFORMANT
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    told = [line for line in found if ": " in line]
    assert told and all(line.startswith("step 1, aten, buffers: ") for line in told)
    assert name in told[0]


def test_right_statistics_pass_and_have_a_column(
    steps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(steps.parent), "--jobs", "0"]) == CONFORMANT
    assert "gradients     buffers  parameters" in capsys.readouterr().out


NAMES = [
    f"buffer_{when}/running_{what}" for when in ("before", "after") for what in ("mean", "var")
]


@pytest.mark.parametrize("name", NAMES)
def test_a_buffer_that_is_missing_is_named(
    name: str, steps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = rewritten(steps, lambda t: {n: each for n, each in t.items() if n != name})
    assert main(["judge", str(run), "--jobs", "0"]) == USAGE
    assert f"has no tensor {name}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: {**t, NAMES[3]: t[NAMES[3]][:2].clone()}, "shape [2], where [3] is due"),
        (lambda t: {**t, NAMES[0]: t[NAMES[0]].double()}, "where torch.float32 is due"),
        (lambda t: {**t, NAMES[1]: t[NAMES[1]] / 0}, f"{NAMES[1]} holds NaN or an infinity"),
        (
            lambda t: {**t, **{n: t[n][:2].clone() for n in (NAMES[0], NAMES[2])}},
            "digits_batch_norm refuses it: batch_norm C2",
        ),
    ],
)
def test_a_buffer_of_another_form(
    change: Callable[[Tensors], Tensors], said: str, steps: Path
) -> None:
    with pytest.raises(NoRecord) as refused:
        tasks_of(rewritten(steps, change))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"buffers": None},
            "has the buffers running_mean, running_var; the manifest names 0: none",
        ),
        ({"buffers": ["mean"]}, "the manifest names 1: mean"),
        ({"buffers": ["mean", "mean"]}, "names a buffer twice"),
        (
            {"program": "digits_mlp", "parameters": ["w1", "b1", "w2", "b2"]},
            "digits_mlp has no buffers; the manifest names 2: running_mean, running_var",
        ),
    ],
)
def test_a_manifest_whose_buffers_are_not_the_programs(
    change: dict[str, object], said: str, steps: Path
) -> None:
    path = steps / "manifest.json"
    whole = {**json.loads(path.read_text(encoding="utf-8")), **change}
    kept = {key: value for key, value in whole.items() if value is not None}
    path.write_text(json.dumps(kept), encoding="utf-8")
    with pytest.raises(NoRecord) as refused:
        tasks_of(steps.parent)
    assert said in str(refused.value)


def test_a_stranger_may_name_buffers_as_it_likes(steps: Path) -> None:
    path = steps / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, "buffers": ["m", "v"]}), encoding="utf-8")
    new = {"running_mean": "m", "running_var": "v"}
    run = rewritten(
        steps,
        lambda t: {"/".join(new.get(part, part) for part in n.split("/")): x for n, x in t.items()},
    )
    assert main(["judge", str(run), "--jobs", "0"]) == CONFORMANT
