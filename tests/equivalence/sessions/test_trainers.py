"""Trainers against the reference's: planted bugs are found, by the first thing that they spoil.

`python -m equivalence trainers` judges drawn trainings; test_examined runs a few rows of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch

import fast.compiled.session
import fast.train
from equivalence.backends.fast.programs import of_program
from equivalence.budgets.violation import Violation
from equivalence.sessions import judge
from equivalence.sessions.trainers import Batch, TrainerPair
from equivalence.sessions.trainings import Falling, Text, Training, train
from fast import Session
from fast.optim._flat import FlatOptimizer
from fast.programs.total import Total


@pytest.mark.holds("Loss and gradients of a trainer")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_losses_of_three_pieces_are_added_as_one_sum(precision: str) -> None:
    def loss(ops: Any, w: Any, x: Any) -> Any:
        return ops.sum(ops.mul(x, ops.broadcast_to(w, shape=x.shape)))

    pair = TrainerPair(loss, [torch.tensor(1.0)], precision=precision)
    x = torch.tensor([2.0**8, 1.0, 1.0]).to(pair.options.compute)
    pair.step("step", "sgd", Batch([x], 3, "sum"), lr=0.0)


def cancel() -> None:
    """Take a step whose gradient is a weight, rounded up, less a product that is truncated."""

    def loss(ops: Any, w: Any, x: Any) -> Any:
        return ops.sum(ops.mul(ops.mul(w, x), x))

    x = torch.tensor([1.0, 1.0 + 11 / 128]).bfloat16()
    up = 1 + Fraction(45, 256) + Fraction(1, 2**12)
    pair = TrainerPair(loss, [torch.ones(1)], provider="triton", precision="bf16")
    pair.step("step", "sgd", Batch([x], weights=[up, -1.0]), lr=0.5)


def test_weights_are_rounded_to_nearest_where_kernels_truncate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancel()
    found = of_program("triton-interpreted", "bf16")
    truncating = replace(found, store_rounding="toward_zero")
    monkeypatch.setattr(judge, "of_program", lambda family, precision: truncating)
    with pytest.raises(Violation, match=r"^step: gradient of parameter 0"):
        cancel()


Change = Callable[[pytest.MonkeyPatch], None]


def piece_unweighted(monkeypatch: pytest.MonkeyPatch) -> None:
    backward = Session.backward
    monkeypatch.setattr(
        Session,
        "backward",
        lambda self, loss, seed=None, into=None: backward(self, loss, None, into),
    )


def loss_unweighted(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Total.add
    monkeypatch.setattr(Total, "add", lambda self, out, weight: add(self, out, 1))


def pieces_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    backward = Session.backward

    def alone(self: Any, loss: Any, seed: Any = None, into: Any = None) -> Any:
        if into is not None:
            into.release()
        return backward(self, loss, seed)

    monkeypatch.setattr(Session, "backward", alone)


def momentum_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    step = FlatOptimizer.step

    def forgetful(self: Any, *given: Any, **more: Any) -> None:
        for arena in self._states or ():
            arena.flat.zero_()
        step(self, *given, **more)

    monkeypatch.setattr(FlatOptimizer, "step", forgetful)


def schedule_early(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduled = fast.train.ScalarTrainer._scheduled

    def early(self: Any, hyper: Any) -> Any:
        self.steps += 1
        try:
            return scheduled(self, hyper)
        finally:
            self.steps -= 1

    monkeypatch.setattr(fast.train.ScalarTrainer, "_scheduled", early)


def group_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Session.sgd_step
    monkeypatch.setattr(
        Session, "sgd_step", lambda self, *a, **k: step(self, *a, **{**k, "groups": None})
    )


def norm_unclipped(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Session.sgd_step
    monkeypatch.setattr(
        Session, "sgd_step", lambda self, *a, **k: step(self, *a, **{**k, "max_norm": None})
    )


def batch_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    first: dict[Any, Any] = {}
    take = fast.compiled.session.taken_from

    def stale(value: Any, options: Any) -> Any:
        taken = take(value, options)
        return first.setdefault((tuple(taken.shape), taken.dtype), taken)

    monkeypatch.setattr(fast.compiled.session, "taken_from", stale)


PLANTED: list[tuple[Change, str]] = [
    (piece_unweighted, "step 0: gradient of parameter 0"),
    (loss_unweighted, "step 0: loss"),
    (pieces_forgotten, "step 0: gradient of parameter 0"),
    (momentum_lost, "step 1: parameter 0"),
    (schedule_early, "step 0: parameter 3"),
    (group_ignored, "step 0: parameter 0"),
    (norm_unclipped, "step 0: parameter 0"),
    (batch_stale, "step 0: loss"),
]
"""Bugs, and the first thing that each of them spoils."""


def two_steps() -> None:
    """Take two steps that use everything that a planted bug may break."""
    rate = Falling(0.25)
    hyper = {"lr": rate, "momentum": 0.5, "nesterov": True}
    groups = [{"params": [0, 1], "lr": 0.125}]
    form = {"count": 2, "reduction": "mean"}
    steps = [
        {"seed": k, "rows": 4, "form": form, "before": None, "max_norm": 2**-6} for k in (1, 2)
    ]
    text = Text(("relu",), "cross_entropy", "mean")
    training = Training(text, (True,) * 5, "sgd", {**hyper, "groups": groups}, steps)
    train(training, ("compiled", "eager"), "aten", "fp32")


def test_two_steps_are_right() -> None:
    two_steps()


@pytest.mark.holds("Loss and gradients of a trainer", "Steps of a trainer")
@pytest.mark.parametrize(("plant", "spoils"), PLANTED, ids=[p.__name__ for p, _ in PLANTED])
def test_a_planted_bug_is_found(
    plant: Change, spoils: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match=f"^{spoils}"):
        two_steps()
