"""Trainings as fixed runs: every loss, gradient, parameter and moment is within budget.

A training is plain data: a loss, batches whole or in pieces, an optimizer and its steps. Both sides
start each step where the backend ended the last one, so that every step is judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import fast.train
import spec.train
from equivalence.budgets.ledger import Ledger
from equivalence.sessions.numbers import integers, normal
from equivalence.sessions.pair import SessionPair
from equivalence.sessions.trainers import Batch, TrainerPair

INTERPRETERS = (("eager", "graph"), ("compiled", "eager"))
"""Those of the two sides: each is met on either."""

WILD = 2.0**6
"""A parameter with a larger entry ends a training, which would soon be one of infinities."""

FEATURES, HIDDEN, CLASSES = 2, 3, 2
SHAPES = [(HIDDEN, FEATURES), (HIDDEN,), (HIDDEN, HIDDEN), (CLASSES, HIDDEN), (CLASSES,)]

LAYERS: dict[str, Callable[..., Any]] = {
    "relu": lambda ops, h, u, b: ops.relu(h),
    "tamed": lambda ops, h, u, b: ops.tanh(h),
    "again": lambda ops, h, u, b: ops.linear(h, u, b),
    "squared": lambda ops, h, u, b: ops.mul(h, h),
    "dropout": lambda ops, h, u, b: ops.dropout(h, p=0.25, seed=3),
    "fixed": lambda ops, h, u, b: ops.mul(h, ops.detach(ops.broadcast_to(b, shape=h.shape))),
}
"""What may stand between the first and the last layer: u may be unreached, b used many times."""


@dataclass(frozen=True)
class Text:
    """A loss of parameters and a batch, as a value that prints, compares and hashes."""

    layers: tuple[str, ...]
    end: str
    reduction: str

    def __call__(self, ops: Any, w: Any, b: Any, u: Any, v: Any, c: Any, x: Any, y: Any) -> Any:
        """Run it; `ops` is a session of either side."""
        h = ops.linear(x, w, b)
        for layer in self.layers:
            h = LAYERS[layer](ops, h, u, b)
        return getattr(ops, self.end)(ops.linear(h, v, c), y, reduction=self.reduction)


@dataclass(frozen=True)
class Training:
    """A loss, which parameters are trained, an optimizer, and what happens step by step."""

    text: Text
    flags: tuple[bool, ...]
    optimizer: str
    hyper: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Falling:
    """A learning rate that falls with the steps taken."""

    start: float

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        return self.start / (1 + step)


def values(seed: int) -> list[torch.Tensor]:
    """Draw the parameters."""
    return [normal(seed + k, *shape) / 2 for k, shape in enumerate(SHAPES)]


def batch(text: Text, seed: int, rows: int, dtype: torch.dtype, **form: Any) -> Batch:
    """Draw a batch that a loss takes."""
    x = normal(seed, rows, FEATURES).to(dtype)
    if text.end == "mse_loss":
        return Batch([x, normal(seed + 1, rows, CLASSES).to(dtype)], **form)
    return Batch([x, integers(seed + 1, CLASSES, rows)], **form)


def train(
    training: Training, interpreters: tuple[str, str], provider: str, precision: str
) -> Ledger:
    """Take the steps of a training."""
    text = training.text
    pair = TrainerPair(text, values(7), training.flags, interpreters, provider, precision)
    for number, step in enumerate(training.steps):
        if not all(bool((value.abs() <= WILD).all()) for value in pair.values):
            break
        rows, seed, dtype = step["rows"], step["seed"], pair.options.compute
        given = batch(text, seed, rows, dtype, **step["form"])
        if step["before"] in ("freeze", "thaw"):
            pair.freeze(seed % len(SHAPES), step["before"] == "freeze")
        elif step["before"] == "set":
            pair.set_values(values(seed))
        elif step["before"] == "look":
            pair.look(f"look {number}", given)
        hyper = {**training.hyper, **{n: step.get(n) for n in ("max_norm", "max_value")}}
        pair.step(f"step {number}", training.optimizer, given, **hyper)
    return pair.ledger


def train_list(
    hyper: Mapping[str, Any],
    steps: Sequence[tuple[int, int]],
    max_norm: float | None,
    provider: str,
    precision: str,
) -> Ledger:
    """Take steps of a list of parameters, each by gradients of some of them."""
    flags = [True, True, True, False, True]
    text = Text((), "mse_loss", "sum")
    pair = TrainerPair(text, values(7), flags, provider=provider, precision=precision)
    for number, (seed, reached) in enumerate(steps):
        gradients = [g if reached >> k & 1 else None for k, g in enumerate(values(seed))]
        pair.step_by(f"step {number}", "sgd", gradients, **hyper, max_norm=max_norm)
    return pair.ledger


def mean_of(ops: Any, train: Any, leaves: Sequence[Any], data: Sequence[Any], far: bool) -> Any:
    """The mean of a few distances, which reach the second leaf only if they are asked to."""
    w, b = leaves

    def one(example: Any) -> Any:
        x, y = example
        h = ops.tanh(ops.linear(x, w, b)) if far else ops.matmul(x, w)
        return ops.mse_loss(h, y)

    return train.mean_scalar_over(ops, "batch", data, one)


def judge_mean(both: SessionPair, seed: int, count: int, far: bool) -> Ledger:
    """Judge the mean of so many losses, and its gradient by leaves, reached and not."""
    drawn = [both.seen(normal(seed + k, *shape)) for k, shape in enumerate([(2, 2), (2,)])]
    pairs = [[both.seen(normal(seed + 9 * j + k, 3, 2)) for k in (3, 4)] for j in range(count)]
    found: list[Any] = []
    for train, session, given_as in (
        (fast.train, both.fast, lambda x: x),
        (spec.train, both.spec, both.lift),
    ):
        leaves = [session.input(given_as(x), requires_grad=True) for x in drawn]
        data = [[session.input(given_as(x)) for x in pair] for pair in pairs]
        loss = mean_of(session, train, leaves, data, far)
        asked = [*leaves, *data[0], loss]
        found.append((session.value(loss), train.gradients_of(session, loss, asked)))
    (loss, gradients), (exact, due) = found
    dtype = both.options.compute
    both.judge("mean", loss, exact, dtype)
    for k, (got, allowed) in enumerate(zip(gradients, due, strict=True)):
        both.judge(f"gradient {k}", got, allowed, dtype)
    return both.ledger
