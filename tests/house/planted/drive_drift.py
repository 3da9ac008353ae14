"""Run in a copy of the tree that has the optimizer `drift`: nobody there but its pages knows it."""

from __future__ import annotations

from typing import Any

import torch

import fast.torch
from equivalence.lives.bad import KINDS
from equivalence.lives.life import Life
from equivalence.lives.moves import NAMES, Moves
from equivalence.twins.programs import numbers
from equivalence.twins.session import TwinSession
from equivalence.twins.trainers import Batch, TwinTrainer
from fast import Session, checkpoint
from fast.checkpoint.interchange import to_torch
from fast.errors import Rejected


def distance(ops: Any, w: Any, x: Any) -> Any:
    """Add up squares of differences."""
    return ops.sum(ops.square(ops.sub(w, x)))


def train() -> None:
    """Take steps of a trainer, of a list and of a session, judged against the reference."""
    twin = TwinTrainer(distance, [numbers(1, 5)])
    hyper = {"lr": 0.25, "keep": 0.5, "weight_decay": 0.5}
    for step in range(2):
        twin.step(f"step {step}", "drift", Batch([numbers(step, 5)]), **hyper)
    twin.step_by("by hand", "drift", [numbers(9, 5)], lr=0.5)
    assert twin.ledger.judged > 20
    both = TwinSession(Session("aten"))
    w = both.param(numbers(2, 4), "w")
    for step in range(2):
        both.reset_tape()
        loss = both.sum(both.square(both.use(w)))
        both.drift_step(0.5, both.backward(f"pass {step}", loss), keep=0.25, max_norm=1.0)
    assert "update 1: w average" in both.verdicts
    assert not both.summary().failed


def live() -> None:
    """Drive it through a life: steps, a checkpoint, bad arguments, and moves drawn by numbers."""
    hyper = {"lr": 0.25, "keep": 0.6, "weight_decay": 0.0}
    life = Life("aten", "fp32")
    life.param((2, 3), 7)
    life.use(0)
    life.op("sum", (0,), axes=None, keepdims=False)
    life.backward(1)
    life.step("drift", 0, lr=0.5, keep=0.5, weight_decay=0.5)
    life.save()
    life.step_host("drift", 3, "sequence", (((0,), {"keep": 0.0}),), **hyper)
    for how in (life.load, life.restore, life.resume):
        how()
    life.use(0)
    for kind in KINDS:
        life.bad(kind)
    life.state("drift", 0)
    life.reset_tape()
    life.end()
    moves = Moves("aten", "bf16")
    moves.begin((NAMES.index("drift"), 1, 2))
    assert moves.usual == "drift" and moves.optimizer(4 * NAMES.index("drift")) == "drift"
    for n in range(8):
        moves.train([("relu", (n, 1, 2)), ("mul", (1, n, 3))], (n, n + 1, n + 2), [])
        moves.step_host((n, 4 * n, n))
    moves.end()
    assert any("'drift'" in line and "step(" in line for line in moves.life.program)


def keep(path: str) -> None:
    """Save and load it; torch does not have it, and `fast.torch` offers it."""
    ours, again = Session("aten"), Session("aten")
    w, v = ours.param([1.0, 2.0], "w"), again.param([0.0, 0.0], "w")
    ours.drift_step(0.5, ours.backward(ours.sum(ours.square(ours.use(w)))))
    checkpoint.save(path, ours)
    checkpoint.load(path, again)
    one, other = ours.optimizer_state("drift", w), again.optimizer_state("drift", v)
    assert torch.equal(one["average"], other["average"]) and one["step"] == other["step"] == 1
    try:
        to_torch(ours, "drift")
    except Rejected as error:
        assert "torch and this library share" in str(error)
    else:
        raise AssertionError("torch has no such optimizer")
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    p.grad = torch.tensor([2.0, 4.0])
    optimizer = fast.torch.Drift([p], lr=0.5)
    optimizer.step()
    assert torch.equal(p.detach(), w.value()) and int(optimizer.state[p]["step"]) == 1


if __name__ == "__main__":
    train()
    live()
    keep("drift.safetensors")
    print("drift was driven")
