"""A program that returns what it was given: passes from it and through it are the eager ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fast import CompiledSession, Session

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("inductor"),
    pytest.mark.usefixtures("cache", "emulator"),
]

W, B = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([1.0, 2.0])
X = np.array([[1.0, 1.0], [2.0, -1.0]])

ORDERS = {
    "the loss twice": (0, 0),
    "a parameter before the loss": (1, 0),
    "a parameter twice after the loss": (0, 1, 1),
    "data before the loss": (2, 0),
}
"""From which results passes are made, the first of which is put off."""


def program(ops: Any, w: Any, b: Any, x: Any) -> Any:
    """A loss, and a parameter and data as they came in."""
    return ops.sum(ops.square(ops.linear(x, w, b))), b, x


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize("engine", ["inductor", "graph"])
def test_passes_are_the_eager_ones(engine: str, order: tuple[int, ...]) -> None:
    provider = "aten" if engine == "inductor" else "triton"
    seeds = None, np.array([1.0, 3.0]), np.ones((2, 2))
    seen = []
    for session in (CompiledSession(provider, "fp32", "cpu", engine=engine), Session(provider)):
        params = [session.param(value) for value in (W, B)]
        if isinstance(session, CompiledSession):
            results = session.run(program, params, [X])
        else:
            results = program(session, *map(session.use, params), session.input(X))
        held = [session.backward(results[k], seeds[k]) for k in order]
        found = [session.grad(grads, p) for grads in held for p in params]
        seen.append([*found, *map(session.value, results)])
    for ours, theirs in zip(*seen, strict=True):
        assert torch.equal(ours, theirs)
