"""Run in a copy of the tree that has the optimizer `drift`: nobody there but its pages knows it."""

from __future__ import annotations

from typing import Any

import torch

import fast.torch
from equivalence.sessions.numbers import normal
from equivalence.sessions.programs import started
from equivalence.sessions.stateful.bad import KINDS
from equivalence.sessions.stateful.rules import NAMES, Rules
from equivalence.sessions.stateful.run import Run
from equivalence.sessions.trainers import Batch, TrainerPair
from fast import Session, checkpoint
from fast.checkpoint.interchange import to_torch
from fast.errors import Rejected


def distance(ops: Any, w: Any, x: Any) -> Any:
    """Add up squares of differences."""
    return ops.sum(ops.square(ops.sub(w, x)))


def train() -> None:
    """Take steps of a trainer, of a list and of a session, judged against the reference."""
    pair = TrainerPair(distance, [normal(1, 5)])
    hyper = {"lr": 0.25, "keep": 0.5, "weight_decay": 0.5}
    for step in range(2):
        pair.step(f"step {step}", "drift", Batch([normal(step, 5)]), **hyper)
    pair.step_by("by hand", "drift", [normal(9, 5)], lr=0.5)
    assert pair.ledger.judged > 20
    with started("aten") as run:
        w = run.param((4,), 2)
        for _ in range(2):
            run.reset_tape()
            run.backward(run.ops.sum(run.ops.square(run.use(w))))
            run.step("drift", max(run.grads), lr=0.5, keep=0.25, max_norm=1.0)
        assert set(run.model.params[w].states["drift"].moments or ()) == {"average"}
    assert run.ledger.judged > 20


def live() -> None:
    """Drive it through a run: steps, a checkpoint, bad arguments, and rules drawn by numbers."""
    hyper = {"lr": 0.25, "keep": 0.6, "weight_decay": 0.0}
    run = Run("aten", "fp32")
    run.param((2, 3), 7)
    run.use(0)
    run.op("sum", (0,), axes=None, keepdims=False)
    run.backward(1)
    run.step("drift", 0, lr=0.5, keep=0.5, weight_decay=0.5)
    run.save()
    run.step_host("drift", 3, "sequence", (((0,), {"keep": 0.0}),), **hyper)
    for how in (run.load, run.restore, run.resume):
        how()
    run.use(0)
    for kind in KINDS:
        run.bad(kind)
    run.state("drift", 0)
    run.reset_tape()
    run.end()
    rules = Rules("aten", "bf16")
    rules.begin((NAMES.index("drift"), 1, 2))
    assert rules.usual == "drift" and rules.optimizer(4 * NAMES.index("drift")) == "drift"
    for n in range(8):
        rules.train([("relu", (n, 1, 2)), ("mul", (1, n, 3))], (n, n + 1, n + 2), [])
        rules.step_host((n, 4 * n, n))
    rules.run.close()
    assert any("'drift'" in line and "step(" in line for line in rules.run.program)


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
