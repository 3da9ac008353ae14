"""Whole training steps: a program on the tape, its backward pass, clipping and the update.

A program is written once and runs in a session of either side. Two steps are taken; after each, the
loss, every gradient, every parameter and every moment are compared.
Where two ops read one value, a session adds their cotangents by torch, on exact numbers too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import torch

from equivalence.exact.literals import meant
from equivalence.exact.points import Point, Verdict, compared, integers
from spec.op import holds
from spec.optim import OPTIMIZERS
from spec.session import Session as Reference

ROWS, FEATURES, HIDDEN, CLASSES = 3, 4, 5, 3
STEPS = 2
EPS = 2.0**-17
"""A number that is the same on both sides; a default of 1e-5 is a decimal here, a double there."""

Loss = Callable[..., Any]


def perceptron(ops: Any, w: Any, b: Any, v: Any, c: Any, x: Any, labels: Any) -> Any:
    """Score the classes by two layers with a relu between them."""
    return ops.cross_entropy(ops.linear(ops.relu(ops.linear(x, w, b)), v, c), labels)


def normalized(ops: Any, gamma: Any, beta: Any, w: Any, b: Any, x: Any, target: Any) -> Any:
    """Normalize, map and bend, and take the squared distance to a target."""
    normal = ops.layer_norm(x, gamma, beta, eps=EPS)
    return ops.mse_loss(ops.tanh(ops.linear(normal, w, b)), target)


def residual(ops: Any, w: Any, b: Any, v: Any, x: Any, labels: Any) -> Any:
    """Add a layer to what it reads, and score by a product that shares its weights."""
    hidden = ops.add(x, ops.tanh(ops.linear(x, w, b)))
    again = ops.add(hidden, ops.tanh(ops.linear(hidden, w, b)))
    return ops.cross_entropy(ops.matmul(again, v), labels)


@dataclass(frozen=True)
class Training:
    """A program with the shapes of its parameters and its data, and how it is trained.

    labels says that its last input holds classes.
    """

    loss: Loss
    parameters: tuple[tuple[int, ...], ...]
    data: tuple[tuple[int, ...], ...]
    labels: bool
    optimizer: str
    hyper: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        """Show as a line of a program: ``adamw(lr=0.1) on perceptron``."""
        hyper = ", ".join(f"{name}={value!r}" for name, value in self.hyper)
        return f"{self.optimizer}({hyper}) on {self.loss.__name__}"


_PERCEPTRON = (
    perceptron,
    ((HIDDEN, FEATURES), (HIDDEN,), (CLASSES, HIDDEN), (CLASSES,)),
    ((ROWS, FEATURES),),
    True,
)
_NORMALIZED = (
    normalized,
    ((FEATURES,), (FEATURES,), (HIDDEN, FEATURES), (HIDDEN,)),
    ((ROWS, FEATURES), (ROWS, HIDDEN)),
    False,
)

_RESIDUAL = (
    residual,
    ((FEATURES, FEATURES), (FEATURES,), (FEATURES, CLASSES)),
    ((ROWS, FEATURES),),
    True,
)

TRAININGS = {
    "perceptron": Training(
        *_PERCEPTRON,
        "adamw",
        (("lr", 0.1), ("beta1", 0.6), ("beta2", 0.95), ("weight_decay", 0.1), ("max_norm", 0.5)),
    ),
    "normalized": Training(
        *_NORMALIZED, "sgd", (("lr", 0.5), ("momentum", 0.9), ("weight_decay", 0.01))
    ),
    "both": Training(*_NORMALIZED, "adam", (("lr", 0.1), ("eps", 0.001), ("max_norm", 0.5))),
    "residual": Training(*_RESIDUAL, "sgd", (("lr", 0.5), ("momentum", 0.9))),
}
"""The trainings that are compared."""


def judged(name: str, seed: int = 0) -> Verdict:
    """Compare both sides at one point."""
    training = TRAININGS[name]
    return compared(str(training), (seed, str(training)), partial(_steps, training))


def _steps(training: Training, point: Point) -> None:
    """Take the steps on both sides, and compare after each."""
    import fast

    drawn = point.draw(*training.parameters)
    ours, page = fast.Session(provider="triton", device="cpu"), Reference()
    mine = [ours.param(one.memory, f"p{k}") for k, one in enumerate(drawn)]
    theirs = [page.param(one.numbers, f"p{k}") for k, one in enumerate(drawn)]
    for number in range(STEPS):
        data = point.draw(*training.data)
        labels = [torch.arange(number, number + ROWS) % CLASSES] if training.labels else []
        found = _step(training, ours, mine, [*(one.memory for one in data), *labels])
        exact = [*(one.numbers for one in data), *map(integers, labels)]
        wanted = _step(training, page, theirs, exact)
        for name, expected in wanted.items():
            point.same(f"step {number}, {name}", found[name], expected)
        for k, (here, there) in enumerate(zip(mine, theirs, strict=True)):
            point.same(f"step {number}, p{k}", here.value(), there.value)
            state, held = page.state(there), ours.optimizer_state(training.optimizer, here)
            moments = OPTIMIZERS[training.optimizer].moments
            for field in [name for name in moments if getattr(state, name) is not None]:
                point.same(f"step {number}, {field} of p{k}", held[field], getattr(state, field))


def _step(training: Training, session: Any, params: list[Any], data: list[Any]) -> dict[str, Any]:
    """Take a step in a session of either side; return its loss and its gradients by name."""
    exactly = isinstance(session, Reference)
    session.reset_tape()
    leaves = [session.use(param) for param in params]
    given = [x if _holds_labels(x) else session.input(x) for x in data]
    loss = training.loss(session, *leaves, *given)
    grads = session.backward(loss)
    found = {f"gradient of p{k}": session.grad(grads, leaf) for k, leaf in enumerate(leaves)}
    hyper = {**OPTIMIZERS[training.optimizer].defaults, **dict(training.hyper)}
    if exactly:
        hyper = {n: Fraction(meant(v)) if type(v) is float else v for n, v in hyper.items()}
    getattr(session, f"{training.optimizer}_step")(**hyper, grads=grads)
    return {"loss": session.value(loss), **found}


def _holds_labels(x: Any) -> bool:
    """Say whether data of either side are labels."""
    return not x.is_floating_point() if isinstance(x, torch.Tensor) else holds(x, int)
