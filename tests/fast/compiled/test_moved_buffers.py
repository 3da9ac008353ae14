"""Buffers under the engine that compiles steps: who looks finds what an eager run leaves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fast import CompiledSession, Rejected
from fast.train import scalar_trainer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("inductor"),
    pytest.mark.usefixtures("cache"),
]

BATCHES = ([[1.0, 4.0], [3.0, 2.0]], [[-1.0, 0.0], [1.0, 2.0]], [[5.0, 7.0], [3.0, 5.0]])
EXACT: dict[str, Any] = {"momentum": 0.5, "eps": 3.0}


def begun(engine: str) -> tuple[CompiledSession, list[Any]]:
    s = CompiledSession(provider="aten", device="cpu", engine=engine)
    return s, [s.buffer(line, name=n) for n, line in (("m", [0.0, 0.0]), ("v", [1.0, 1.0]))]


def trained(engine: str, mode: str) -> list[Tensor]:
    """Train by three batches, and look at what there is as the mode says."""
    s, held = begun(engine)
    line, found = s.param([1.0, 2.0]), []

    def program(ops: Any, gamma: Any, x: Any) -> Any:
        return ops.sum(ops.square(ops.batch_norm(x, gamma, None, *held, **EXACT)))

    def evaluated(ops: Any, gamma: Any, x: Any) -> Any:
        return ops.sum(ops.batch_norm(x, gamma, None, *held, training=False, **EXACT))

    for batch in BATCHES:
        out = s.run(program, [line], [batch])
        if mode == "the value first":
            found.append(s.value(out))
        if mode == "the buffer first":
            found.append(held[0].value())
        with s.backward(out) as grads:
            if mode == "the gradient first":
                found.append(s.grad(grads, line))
            s.sgd_step(0.25, grads)
        if mode == "set in between":
            held[1].set([2.0, 2.0])
        if mode == "evaluated":
            found.append(s.value(s.run(evaluated, [line], [batch])))
        if mode == "runs that nobody asks of":
            s.run(program, [line], [batch])
            s.run(program, [line], [batch])
    return [*found, line.value(), *(buffer.value() for buffer in held)]


FULL = [
    *("the value first", "the buffer first", "the gradient first"),
    *("evaluated", "runs that nobody asks of"),
]
MODES = ["whole steps", "set in between", *(pytest.param(m, marks=pytest.mark.full) for m in FULL)]


@pytest.mark.parametrize("mode", MODES)
def test_buffers_are_those_of_a_replay(mode: str) -> None:
    ours, theirs = trained("inductor", mode), trained("replay", mode)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_step_that_is_refused_leaves_them() -> None:
    s, held = begun("inductor")

    def loss(ops: Any, gamma: Any, x: Any) -> Any:
        return ops.sum(ops.square(ops.batch_norm(x, gamma, None, *held, **EXACT)))

    trainer = scalar_trainer(loss, [[1.0, 2.0]], session=s)
    trainer.step(0.25, [BATCHES[0]])
    before = [buffer.value() for buffer in held]
    with pytest.raises(Rejected):
        trainer.step(-1.0, [BATCHES[1]])
    assert all(torch.equal(b.value(), old) for b, old in zip(held, before, strict=True))
    trainer.step(0.25, [BATCHES[1]])
    assert not any(torch.equal(b.value(), old) for b, old in zip(held, before, strict=True))
