"""Liger's kernels as a stranger brings them: what is found, and what declaring it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from equivalence.backends import load
from equivalence.backends.protocol import Backend
from equivalence.budgets.outcome import Outcome
from equivalence.runs.choice import kind_of_case, read_case
from tests.support import judge

pytest.importorskip("liger_kernel", reason="Liger comes with its extra: twingrad[liger]")

DECLARED = "equivalence.backends.strangers.liger:DeclaredLiger"


def case(op: str, direction: str, *layouts: str, dtype: str = "fp32", **changed: object) -> str:
    """Write a small case of integers, labels last where the op has them."""
    plain: dict[str, object] = {"op": op, "direction": direction, "dtype": dtype}
    recipes = [["integers", 0, layout] for layout in layouts]
    plain |= {"shapes": [[2, 2]], "recipes": recipes}
    if op == "cross_entropy":
        plain |= {"shapes": [[2, 2], [2]], "recipes": [*recipes, ["indices", 0, "contiguous"]]}
    if direction == "vjp":
        plain["cotangent"] = ["integers", 0, "contiguous"]
    return json.dumps(plain | changed)


def outcome(name: str, text: str) -> Outcome:
    backend = load(name)
    row, found = read_case(text)
    contract = backend.capabilities().contract(row.op, row.dtype)
    return kind_of_case(row, found).measure(backend, found, contract)


def test_it_follows_the_protocol() -> None:
    backend = load("liger")
    assert isinstance(backend, Backend)
    assert backend.capabilities().ring == "interpreted"
    assert backend.capabilities().contract("softmax", "fp32").granted == ()


@pytest.mark.parametrize(
    ("layout", "fails"),
    [("contiguous", False), ("padded", False), ("transposed", True), ("expanded", True)],
)
def test_the_gradient_of_cross_entropy_wants_rows_that_lie_apart(layout: str, fails: bool) -> None:
    found = outcome("liger", case("cross_entropy", "vjp", layout))
    assert (found.failed, found.crash) == (fails, None)


def test_what_comes_back_for_another_stride_are_the_logits() -> None:
    logits = torch.tensor([[1.0, -2.0], [0.5, 4.0]]).T
    inputs = [logits, torch.tensor([0, 1])]
    gradient = load("liger").vjp("cross_entropy", inputs, {}, [torch.tensor(1.0)])[0]
    assert gradient is not None and torch.equal(gradient, logits)


LOSS = case("cross_entropy", "value", "contiguous", attrs={"reduction": "none"})
CURVE = case(
    "silu",
    "vjp",
    shapes=[[2]],
    recipes=[["logits", 5, "contiguous"]],
    cotangent=["integers", 0, "contiguous"],
)
SUMS = case("softmax", "vjp", "contiguous", dtype="fp16", shapes=[[2]])


@pytest.mark.parametrize("text", [LOSS, CURVE, SUMS], ids=["loss", "curve", "sums"])
def test_a_form_is_over_budget_until_it_is_declared(text: str) -> None:
    assert outcome("liger", text).failed
    assert not outcome(DECLARED, text).failed


@pytest.mark.slow
def test_the_command_finds_the_lost_gradient_and_the_lost_digits(tmp_path: Path) -> None:
    command = [
        "run",
        "--backend",
        "liger",
        "--ops",
        "cross_entropy",
        "--profile",
        "quick",
        "--seed",
        "0",
        "--jobs",
        "1",
    ]
    ran = judge(tmp_path, *command, "--json", "found.json")
    rows = {
        (row["direction"], row["dtype"]): row
        for row in json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["rows"]
    }
    lost = json.dumps(rows["vjp", "fp32"]["failures"])
    assert "the same numbers pass when contiguous" in lost, ran.stdout
    assert "is its last stride taken to be 1?" in lost
    digits = json.dumps(rows["value", "fp32"]["failures"])
    assert "got 0.00033521652, exact 0.0003354063" in digits, ran.stdout
