"""What an engine that compiles is asked for, each as a short training that is run.

A training takes a session and its parameters, and returns tensors that two sessions agree on. Its
numbers are integers and halves, so that an eager session gives the same bits in whatever order sums
are taken; where roots or quotients are on the way, `exact` is False, and the judge says it
(`python -m equivalence trainers --engine inductor`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from fast import CompiledSession, Session, checkpoint

ONE, REFUSED = "one artifact", "refused"
PIECES = "one artifact for each piece; the last one updates"
PASSES = "both passes, then the session's own update"

Training = Callable[[Any, Sequence[Any]], list[Tensor]]


@dataclass(frozen=True)
class Feature:
    """A line of the table: what is asked for, how a step then runs, and a training that does so."""

    name: str
    runs: str
    training: Training
    exact: bool = True
    precision: str = "fp32"


W = np.array([[1.0, -2.0, 3.0], [0.0, 1.0, -1.0], [2.0, 2.0, 0.0], [-1.0, 0.0, 1.0]])
X = np.arange(9.0).reshape(3, 3) - 4
LABELS = np.array([0, 2, 1])
RATE = 2.0**-5


def parameters(session: Any) -> list[Any]:
    """Make the parameters that a training is given."""
    return [session.param(W, name="w"), session.param(np.ones(4), name="b")]


def squares(ops: Any, w: Any, b: Any, x: Any) -> Any:
    """A layer and a sum of squares."""
    return ops.sum(ops.square(ops.relu(ops.linear(x, w, b)) * 0.5))


def drawn(ops: Any, w: Any, b: Any, x: Any) -> Any:
    """The same with a mask that is drawn."""
    return ops.sum(ops.square(ops.dropout(ops.linear(x, w, b), p=0.5, seed=1)))


def picked(ops: Any, w: Any, b: Any, x: Any, labels: Any) -> Any:
    """The same, of entries that labels pick, and the scores beside the loss."""
    scores = ops.linear(x, w, b)
    return ops.sum(ops.square(ops.take(scores, labels, axis=0))), scores


def by_own_indices(ops: Any, w: Any, b: Any, x: Any) -> Any:
    """Read rows by what argmax has found."""
    return ops.sum(ops.square(ops.take(ops.linear(x, w, b), ops.argmax(x, axis=0), axis=0)))


def after(session: Any, params: Sequence[Any], *more: Tensor) -> list[Tensor]:
    """What a training leaves."""
    return [p.value() for p in params] + list(more)


def steps(
    program: Any = squares, count: int = 2, optimizer: str = "sgd", data: Any = (X,), **hyper: Any
) -> Training:
    """Take steps by an optimizer, and look at the loss after each."""

    def training(session: Any, params: Sequence[Any]) -> list[Tensor]:
        losses = []
        for _ in range(count):
            found = session.run(program, params, data)
            loss = found[0] if isinstance(found, tuple) else found
            step = getattr(session, f"{optimizer}_step")
            step(**{"lr": RATE, **hyper}, grads=session.backward(loss))
            losses += [session.value(x) for x in (found if isinstance(found, tuple) else [found])]
        return after(session, params, *losses)

    return training


def of_several_shapes(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Take steps on three rows, on two, and on three again."""
    for rows in (X, X[:2], X):
        session.sgd_step(RATE, session.backward(session.run(squares, params, [rows])))
    return after(session, params)


def with_one_frozen(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Take a step with the weights frozen."""
    params[0].requires_grad = False
    return steps()(session, params)


def unreached(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Take a step beside a parameter that the loss does not reach."""
    idle = session.param(np.ones(2), name="idle")
    return [*steps()(session, params), idle.value()]


def in_groups(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Take steps in which the bias has a rate and a decay of its own."""
    group = {"params": [params[1]], "lr": RATE / 2, "weight_decay": 0.5}
    return steps(groups=[group])(session, params)


def scheduled(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Take steps whose rate falls."""
    for step in range(3):
        loss = session.run(squares, params, [X])
        session.sgd_step(RATE / 2**step, session.backward(loss), momentum=0.5)
    return after(session, params)


def with_statistics(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Take steps through batch_norm, and look at its running statistics."""
    held = [session.buffer(np.full(params[1].shape, start)) for start in (0.0, 1.0)]

    def normalized(ops: Any, w: Any, b: Any, x: Any) -> Any:
        z = ops.batch_norm(ops.linear(x, w, b), None, None, *held, eps=1.0)
        return ops.sum(ops.square(ops.add(z, ops.linear(x, w, b))))

    found = steps(normalized)(session, params)
    return [*found, *(buffer.value() for buffer in held)]


def accumulated(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Add the gradients of three pieces of a batch by weights, and update once."""
    grads = session.backward(session.run(squares, params, [X]))
    for shift in (1, 2):
        loss = session.run(squares, params, [X + shift])
        grads = session.backward(loss, seed=0.5, into=grads)
    session.sgd_step(RATE, grads)
    return after(session, params, *(session.grad(grads, p) for p in params))


def with_validation(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Compute losses between steps, without a pass back."""
    seen = []
    for _ in range(2):
        session.sgd_step(RATE, session.backward(session.run(squares, params, [X])))
        seen.append(session.value(session.run(squares, params, [X])))
    return after(session, params, *seen)


def with_a_checkpoint(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Save between steps, go on, and go back."""
    train = steps(count=1, momentum=0.5)
    train(session, params)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save(Path(folder) / "c", session)
        train(session, params)
        checkpoint.load(Path(folder) / "c", session)
    return train(session, params)


def looked_at(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Look at a gradient before the update."""
    grads = session.backward(session.run(squares, params, [X]))
    seen = session.grad(grads, params[0])
    session.sgd_step(RATE, grads)
    return after(session, params, seen)


def used_twice(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Hand a parameter in for two arguments."""

    def twice(ops: Any, w: Any, again: Any, b: Any, x: Any) -> Any:
        return ops.sum(ops.square(ops.linear(x, w, b))) + ops.sum(ops.square(again))

    loss = session.run(twice, [params[0], params[0], params[1]], [X])
    grads = session.backward(loss)
    session.sgd_step(RATE, grads)
    return after(session, params, session.grad(grads, 0), session.grad(grads, 1))


def dense(session: Any, params: Sequence[Any]) -> list[Tensor]:
    """Ask for the cotangents of all entries of the tape."""
    grads = session.backward_dense(session.run(squares, params, [X]))
    return [session.grad(grads, p) for p in params]


FEATURES = (
    Feature("sgd, with momentum", ONE, steps(momentum=0.5, dampening=0.5, weight_decay=0.5)),
    Feature("adam", ONE, steps(optimizer="adam"), exact=False),
    Feature("adamw", ONE, steps(optimizer="adamw"), exact=False),
    Feature("adam by amsgrad", ONE, steps(optimizer="adam", amsgrad=True), exact=False),
    Feature("adagrad", ONE, steps(optimizer="adagrad"), exact=False),
    Feature(
        "rmsprop, centered and with momentum",
        ONE,
        steps(optimizer="rmsprop", centered=True, momentum=0.5, alpha=0.75),
        exact=False,
    ),
    Feature("adadelta", ONE, steps(optimizer="adadelta"), exact=False),
    Feature("lion", ONE, steps(optimizer="lion", weight_decay=0.5), exact=False),
    Feature("masks that are drawn (the counter is data)", ONE, steps(drawn, count=3)),
    Feature("running statistics of batch_norm", ONE, with_statistics, exact=False),
    Feature("several results; labels", ONE, steps(picked, data=(X, LABELS))),
    Feature("several shapes (an artifact each)", ONE, of_several_shapes),
    Feature("frozen parameters", ONE, with_one_frozen),
    Feature("parameters that the loss does not reach", ONE, unreached),
    Feature("groups", ONE, in_groups),
    Feature("schedules (nothing is compiled anew)", ONE, scheduled),
    Feature("clipping by the norm", ONE, steps(max_norm=4.0), exact=False),
    Feature("clipping by value", PASSES, steps(max_value=0.5, grad_scale=2.0)),
    Feature("a scale of gradients", ONE, steps(grad_scale=2.0)),
    Feature("validation between steps", ONE, with_validation),
    Feature("a checkpoint in the middle", ONE, with_a_checkpoint),
    Feature("fp64", ONE, steps(), precision="fp64"),
    Feature("bf16, with masters in fp32", ONE, steps(), exact=False, precision="bf16"),
    Feature("fp16, with masters in fp32", ONE, steps(), precision="fp16"),
    Feature("gradients that are added up (`into=`)", PIECES, accumulated),
    Feature("gradients that are looked at before the update", PASSES, looked_at),
    Feature("a parameter for two arguments", ONE, used_twice),
    Feature("indices that the program computes", PASSES, steps(by_own_indices)),
    Feature("cotangents inside a program (`backward_dense`)", REFUSED, dense),
)
"""All lines of the table in docs/interpreters.md."""


def session_of(feature: Feature, engine: str | None) -> Any:
    """Start a session for a feature: one with an engine, or an eager one."""
    if engine is None:
        return Session("aten", feature.precision)
    return CompiledSession("aten", feature.precision, engine=engine)


def table() -> str:
    """The table, in Markdown."""
    rows = [f"| {feature.name} | {feature.runs} |" for feature in FEATURES]
    return "\n".join(["| asked for | how a training step runs |", "|---|---|", *rows])
