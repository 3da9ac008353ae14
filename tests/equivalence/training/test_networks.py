"""Each network is trained, recorded and judged; what becomes of buffers is judged and refused."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from torch import Tensor

from equivalence.budgets.outcome import Outcome
from equivalence.cli import main
from equivalence.runs.results import CONFORMANT, NONCONFORMANT, USAGE
from equivalence.training.judge import (
    PARTS,
    Judged,
    JudgedStep,
    judge_tasks,
    report_steps,
    tasks_of,
)
from equivalence.training.record import NoRecord
from fast.commands.job import Job
from fast.commands.loop import train
from fast.commands.networks import NETWORKS
from fast.commands.recorder import Recorder

BATCH = 4
batch_norm = importlib.import_module("fast.ops.batch_norm")
Tensors = dict[str, Tensor]


def record(run: Path, net: str, count: int = 1, hidden: int = 3, **more: Any) -> None:
    """Record steps of a short run on images of noise."""
    draw = np.random.default_rng(0)
    x = draw.uniform(0, 1, (2 * BATCH, 64)).astype(np.float32)
    job = Job(provider="aten", net=net, hidden=hidden, epochs=1, batch_size=BATCH, **more)
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
    more = {"batch_norm": ["buffers"], "residual": ["nodes"]}.get(net, [])
    assert all(sorted(verdict.parts) == sorted([*PARTS, *more]) for verdict in judged)


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


def _population(own: Any, running: Tensor, statistic: Tensor, momentum: float) -> Tensor:
    """Take the variance of the population: of the two statistics it starts from ones."""
    part = (BATCH - 1) / BATCH if bool(running.all()) else 1.0
    moved: Tensor = own(running, statistic * part, momentum)
    return moved


FAULTS: dict[str, Callable[..., Tensor]] = {
    "the population variance": _population,
    "not moved": lambda own, running, statistic, momentum: running.clone(),
    "moved twice": lambda own, running, *rest: own(own(running, *rest), *rest),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_twin_that_moves_statistics_wrongly_is_found(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(batch_norm, "_moved", partial(FAULTS[fault], batch_norm._moved))
        record(tmp_path, "batch_norm")
    judged = [verdict for _, verdict in judge_tasks(tasks_of(tmp_path), 0)]
    found = [{part for part, o in verdict.parts.items() if o.failed} for verdict in judged]
    assert found == [{"buffers"}, set()], "the kernels take the step again, and are right"


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


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    record(folder, "residual", hidden=24, interpreter="compiled")
    return folder


def problems(run: Path, change: Callable[[Tensors], Tensors], nodes: int, to: Path) -> set[str]:
    """Judge a changed copy of a step as it was recorded; return the parts with problems.

    A part "wide" says that there are budgets that say little.
    """
    (to / "steps").mkdir(parents=True)
    for file in (run / "steps").iterdir():
        (to / "steps" / file.name).write_bytes(file.read_bytes())
    path = to / "steps" / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    assert manifest["nodes"] == 12
    path.write_text(json.dumps({**manifest, "nodes": nodes}), encoding="utf-8")
    tasks = [task for task in tasks_of(rewritten(to / "steps", change)) if task[2] == "aten"]
    ((_, verdict),) = judge_tasks(tasks, 0)
    wide = {"wide"} if verdict.wide else set()
    return {part for part, outcome in verdict.parts.items() if outcome.failed} | wide


def off(name: str, by: float = 2**-14) -> Callable[[Tensors], Tensors]:
    """Move the largest entry of a tensor by a part of itself."""

    def change(tensors: Tensors) -> Tensors:
        wrong = tensors[name].clone()
        flat = wrong.view(-1)
        flat[flat.abs().argmax()] *= 1 + by
        return {**tensors, name: wrong}

    return change


@pytest.mark.parametrize("name", ["node/1", "node/11", "node_grad/2", "node_grad/11"])
def test_a_wrong_node_is_found(name: str, deep: Path, tmp_path: Path) -> None:
    assert "nodes" in problems(deep, off(name), 12, tmp_path)


def test_nodes_find_what_a_budget_of_the_whole_program_lets_pass(
    deep: Path, tmp_path: Path
) -> None:
    assert problems(deep, lambda t: t, 12, tmp_path / "right") == set()
    change = off("grad/w1", 2**-17)
    assert "gradients" in problems(deep, change, 12, tmp_path / "nodes")
    whole = problems(deep, change, 0, tmp_path / "whole")
    assert "gradients" not in whole and "wide" in whole, "and the report says so"


@pytest.mark.parametrize(
    ("nodes", "change", "said"),
    [
        (11, lambda t: t, "digits_residual has 12 nodes, or none are recorded; the manifest says"),
        (13, lambda t: t, "has no tensor node/12"),
        (12, lambda t: {n: x for n, x in t.items() if n != "node/3"}, "has no tensor node/3"),
        (12, lambda t: {**t, "node_grad/3": t["node/3"][:2].clone()}, "node_grad/3 has the shape"),
        (12, lambda t: {**t, "node/3": t["node/3"] / 0}, "node/3 holds NaN or an infinity"),
    ],
)
def test_nodes_that_do_not_fit_are_refused(
    nodes: int, change: Callable[[Tensors], Tensors], said: str, deep: Path, tmp_path: Path
) -> None:
    with pytest.raises(NoRecord) as refused:
        problems(deep, change, nodes, tmp_path)
    assert said in str(refused.value)


def test_the_report_counts_budgets_that_say_little(
    deep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = JudgedStep(1, "aten", {part: Outcome(0.5, judged=1) for part in PARTS}, wide=7)
    assert report_steps(Judged((verdict,)), deep) == CONFORMANT
    assert "7 budgets of losses, gradients and nodes are wider than" in capsys.readouterr().out
