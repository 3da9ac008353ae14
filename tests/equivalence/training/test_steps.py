"""Judging recorded training steps: right ones pass, each wrong part is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import fast
from equivalence.backends import declared
from equivalence.budgets.lifting.worlds import lift_one
from equivalence.cli import main
from equivalence.measure.call import compare
from equivalence.measure.reference import expected_step
from equivalence.training.judge import PARTS, judge_run, steps_document
from equivalence.training.record import NoRecord, read_manifest, retaken_step
from equivalence.training.rowwise import LINEAR, Rowwise
from equivalence.worlds.arithmetic import Arithmetic
from spec.ops import OPS
from spec.session import Session

HYPER = {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
SHAPES = {"w1": (5, 6), "b1": (5,), "w2": (3, 5), "b2": (3,)}


def record(run: Path) -> None:
    """Write two small steps, as the training command does."""
    folder = run / "steps"
    folder.mkdir(parents=True)
    draw = torch.Generator().manual_seed(0)
    params = {name: torch.randn(shape, generator=draw) for name, shape in SHAPES.items()}
    states = {
        name: {"exp_avg": torch.zeros(s), "exp_avg_sq": torch.zeros(s), "step": torch.tensor(0)}
        for name, s in SHAPES.items()
    }
    manifest = {
        "schema": 1,
        "program": "digits_mlp",
        "parameters": list(SHAPES),
        "provider": "aten",
        "precision": "fp32",
        "optimizer": "adamw",
        "hyper": {name: value.hex() for name, value in HYPER.items()},
        "steps": [1, 2],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    for step in (1, 2):
        tensors = {
            "input/x": torch.randn((4, 6), generator=draw),
            "input/labels": torch.tensor([0, 2, 1, 2]),
            **{f"param_before/{name}": p for name, p in params.items()},
            **{f"state_before/{n}/{k}": t for n, row in states.items() for k, t in row.items()},
        }
        taken = retaken_step(read_manifest(run), tensors, "aten")
        params = {name: p.clone() for name, p in taken.params.items()}
        states = {n: {k: t.clone() for k, t in row.items()} for n, row in taken.states.items()}
        tensors |= {"loss": taken.loss}
        tensors |= {f"grad/{name}": g for name, g in taken.gradients.items()}
        tensors |= {f"param_after/{name}": p for name, p in params.items()}
        tensors |= {f"state_after/{n}/{k}": t for n, row in states.items() for k, t in row.items()}
        copies = {name: t.clone() for name, t in tensors.items()}
        save_file(copies, folder / f"step-{step:05d}.safetensors")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    record(tmp_path)
    return tmp_path


def test_right_steps_pass_as_recorded_and_as_taken_again(run: Path) -> None:
    judged = judge_run(run)
    assert judged.conformant
    assert [(s.step, s.provider.split("-")[0]) for s in judged.steps] == [
        (1, "aten"),
        (2, "aten"),
        (1, "triton"),
        (2, "triton"),
    ]
    assert judged.worst is not None and 0 < judged.worst <= 1
    assert all(set(step.parts) == set(PARTS) for step in judged.steps)
    assert steps_document(judged)["conformant"] is True


def test_steps_of_a_gpu_are_judged_by_what_a_gpu_may_do(run: Path) -> None:
    path = run / "steps" / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, "ring": "device"}), encoding="utf-8")
    first, *_ = judge_run(run).steps
    assert first.provider == "aten-device" and first.conformant


@pytest.mark.parametrize(
    ("tensor", "part"),
    [
        ("loss", "loss"),
        ("grad/w1", "gradients"),
        ("param_after/b2", "parameters"),
        ("state_after/w2/exp_avg", "moments"),
        ("state_after/w1/exp_avg_sq", "moments"),
        ("state_after/b1/step", "moments"),
    ],
)
def test_a_wrong_tensor_is_found_in_its_part(
    run: Path, tensor: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "steps" / "step-00002.safetensors"
    tensors = load_file(path)
    tensors[tensor] = tensors[tensor] + 1
    save_file(tensors, path)
    assert main(["judge", str(run), "--jobs", "0"]) == 1
    shown = capsys.readouterr().out
    assert f"step 2, aten, {part}:" in shown
    assert "worst fraction of budget" in shown.splitlines()[-1]


def test_the_last_line_joins_accuracy_and_verdict(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ['{"event": "step", "step": 1, "loss": 2.0}', '{"event": "result", "accuracy": 0.9725}']
    (run / "metrics.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert main(["judge", str(run), "--jobs", "0"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"{run.name}: accuracy 0.9725, worst fraction of budget 0.")


def test_the_verdict_is_written_as_json(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    assert main(["judge", str(run), "--jobs", "0", "--json", str(path)]) == 0
    verdict = json.loads(path.read_text(encoding="utf-8"))
    assert verdict["schema"] == 1 and len(verdict["steps"]) == 4
    assert verdict["command"] == "judge"
    assert all(step["conformant"] and step["problems"] == [] for step in verdict["steps"])
    assert 0 < verdict["worst_fraction"] <= 1


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("program", "mystery", "cannot judge the program 'mystery'; known: digits_mlp"),
        ("precision", "bf16", "cannot judge the precision 'bf16'; known: fp32, fp64"),
        ("optimizer", "lamb", "cannot judge the optimizer 'lamb'"),
        ("steps", [7], "step-00007.safetensors is missing"),
    ],
)
def test_what_cannot_be_judged_is_refused(run: Path, key: str, value: object, said: str) -> None:
    path = run / "steps" / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, key: value}), encoding="utf-8")
    with pytest.raises(NoRecord, match=said):
        judge_run(run)


def test_products_by_rows_give_the_balls_of_the_page() -> None:
    arithmetic = Arithmetic(declared("aten")("linear", "fp32"))
    draw = torch.Generator().manual_seed(1)
    x, w, b, g = (
        lift_one(torch.randn(shape, generator=draw), arithmetic)
        for shape in ((3, 7), (4, 7), (4,), (3, 4))
    )
    page = OPS["linear"]
    pairs = [(page.value(x, w, b), LINEAR.value(x, w, b))]
    pairs += list(zip(page.vjp((x, w, b), g), LINEAR.vjp((x, w, b), g), strict=True))
    for expected, found in pairs:
        assert expected is not None and found is not None and expected.shape == found.shape
        for one, two in zip(expected.data, found.data, strict=True):
            assert one.v == two.v and str(one.w) == str(two.w)


def test_a_program_by_rows_has_every_operation_of_the_session() -> None:
    arithmetic = Arithmetic(declared("aten")("linear", "fp32"))
    session = Session()
    ops = Rowwise(session)
    x = session.input(lift_one(torch.tensor([[1.0, -2.0]]), arithmetic))
    w = session.use(session.param(lift_one(torch.eye(2), arithmetic), "w"))
    b = session.use(session.param(lift_one(torch.zeros(2), arithmetic), "b"))
    loss = ops.sum(ops.relu(ops.linear(x, w, b)))
    assert float(session.value(loss)[()].v) == 1.0
    gradients = session.backward(loss)
    assert [float(e.v) for e in gradients[w.id].data] == [1.0, -2.0, 0.0, 0.0]


def test_a_gradient_of_few_digits_may_be_squared_in_any_order() -> None:
    """Its square is exact, and torch rounds (c g) g twice; a step of the digits run did so."""
    gradient, parameter = torch.tensor([float.fromhex("0x1.698p-12")]), torch.zeros(1)
    hyper = {"lr": 3e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 1e-2}
    session = fast.Session(provider="aten", device="cpu")
    owner = session.param(parameter)
    session.use(owner)
    session.adamw_step(**hyper, grads={0: gradient})
    found = session.optimizer_state("adamw", owner)
    none = {"exp_avg": None, "exp_avg_sq": None}
    contract = declared("aten")("adamw", "fp32")
    due = expected_step("adamw", parameter, gradient, none, 0, hyper, contract).tensors
    for name in none:
        outcome = compare([name], [found[name]], [due[name]])
        assert outcome.judged == 1 and not outcome.failed, outcome
