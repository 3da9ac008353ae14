"""Run in a copy of the tree with the planted pages, which nobody there knows but they themselves.

Stateful tests find operands for the ops; sessions, lists, trainers, stateful tests, checkpoints and
`fast.torch` step by the optimizer.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

import fast.torch
from equivalence.cases.updates.levels import of_every_shape
from equivalence.sessions.drawn import NAMES as STEPS
from equivalence.sessions.graphs import examine
from equivalence.sessions.numbers import normal
from equivalence.sessions.programs import started
from equivalence.sessions.stateful.bad import KINDS
from equivalence.sessions.stateful.machine import ANY
from equivalence.sessions.stateful.operands import Offer, operands
from equivalence.sessions.stateful.rules import NAMES, Rules
from equivalence.sessions.stateful.run import Run
from equivalence.sessions.trainers import Batch, TrainerPair
from fast import Session, checkpoint
from fast.checkpoint.interchange import to_torch
from fast.errors import Rejected
from spec.ops import OPS

NAME = "signum_like"


def distance(ops: Any, w: Any, x: Any) -> Any:
    """Add up squares of differences."""
    return ops.sum(ops.square(ops.sub(w, x)))


def train() -> None:
    """Take steps of a trainer, of a list and of a session, judged against the reference."""
    pair = TrainerPair(distance, [normal(1, 5)])
    hyper = {"lr": 0.25, "beta": 0.5, "weight_decay": 0.5}
    for step in range(2):
        pair.step(f"step {step}", NAME, Batch([normal(step, 5)]), **hyper)
    pair.step_by("by hand", NAME, [normal(9, 5)], lr=0.5)
    assert pair.ledger.judged > 20
    with started("aten") as run:
        w = run.param((4,), 2)
        for _ in range(2):
            run.reset_tape()
            run.backward(run.ops.sum(run.ops.square(run.use(w))))
            run.step(NAME, max(run.grads), lr=0.5, beta=0.25, max_norm=1.0)
        assert set(run.model.params[w].states[NAME].moments or ()) == {"exp_avg"}
    assert run.ledger.judged > 20


def live() -> None:
    """Drive it through a run: steps, a checkpoint, bad arguments, and rules drawn by numbers."""
    hyper = {"lr": 0.25, "beta": 0.6, "weight_decay": 0.0}
    run = Run("aten", "fp32")
    run.param((2, 3), 7)
    run.use(0)
    run.op("sum", (0,), axes=None, keepdims=False)
    run.backward(1)
    run.step(NAME, 0, lr=0.5, beta=0.5, weight_decay=0.5)
    run.save()
    run.step_host(NAME, 3, "sequence", (((0,), {"beta": 0.0}),), **hyper)
    for how in (run.load, run.restore, run.resume):
        how()
    run.use(0)
    for kind in KINDS:
        run.bad(kind)
    run.state(NAME, 0)
    run.reset_tape()
    run.end()
    rules = Rules("aten", "bf16")
    rules.begin((NAMES.index(NAME), 1, 2))
    assert rules.usual == NAME and rules.optimizer(4 * of_every_shape().index(NAME)) == NAME
    for n in range(8):
        rules.train([("relu", (n, 1, 2)), ("mul", (1, n, 3))], (n, n + 1, n + 2), [])
        rules.step_host((n, 4 * n, n))
    rules.run.close()
    assert any(repr(NAME) in line and "step(" in line for line in rules.run.program)


def keep(path: str) -> None:
    """Save and load it; torch does not have it, and `fast.torch` offers it."""
    ours, again = Session("aten"), Session("aten")
    w, v = ours.param([1.0, 2.0], "w"), again.param([0.0, 0.0], "w")
    ours.signum_like_step(lr=0.5, grads=ours.backward(ours.sum(ours.square(ours.use(w)))))
    checkpoint.save(path, ours)
    checkpoint.load(path, again)
    one, other = ours.optimizer_state(NAME, w), again.optimizer_state(NAME, v)
    assert torch.equal(one["exp_avg"], other["exp_avg"]) and set(one) == {"exp_avg"}
    try:
        to_torch(ours, NAME)
    except Rejected as error:
        assert "torch and this library share" in str(error)
    else:
        raise AssertionError("torch has no such optimizer")
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    p.grad = torch.tensor([2.0, 4.0])
    optimizer = fast.torch.SignumLike([p], lr=0.5)
    optimizer.step()
    assert torch.equal(p.detach(), w.value())
    assert torch.equal(optimizer.state[p]["exp_avg"], one["exp_avg"])


def programs(names: list[str]) -> None:
    """Take the ops as steps of random programs, each with all of its results.

    Those of exponents are no steps; an op of several results, which the runs leave out, is one.
    """
    assert all(name in STEPS or OPS[name].results is None for name in names)
    for name in (name for name in names if name in STEPS):
        assert examine([(name, 0, 0), ("tanh", 0, 0)], 1, 2).judged > 20


def use(names: list[str]) -> None:
    """Let a stateful test find operands for each op of one result, and go back through it."""
    run = Run("aten", "fp32")
    run.param((2, 3), 0)
    run.use(0)
    for name in names:
        known = {here: entry.bits for here, entry in run.model.intact()}
        found = operands(name, Offer(known, [], run.provider, run.precision), (0, 0, 0))
        assert name in ANY.elements, name
        assert (found is None) == (OPS[name].results is not None), name
        if found is not None:
            run.op(name, found[0], **found[1])
            run.backward(len(run.refs) - 1, 1)
    run.reset_tape()


if __name__ == "__main__":
    train()
    live()
    keep("planted.safetensors")
    use(sys.argv[1:])
    programs(sys.argv[1:])
    print("all were driven")
