"""What the tests of compiled sessions share: pairs of sessions and trainers, and their data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fast import CompiledSession, Session, counters
from fast.train import ScalarTrainer, scalar_trainer

CPU: dict[str, Any] = {"provider": "aten", "device": "cpu"}
CONFIGURATIONS = [("aten", "fp32"), ("aten", "bf16"), ("aten", "fp64"), ("triton", "fp32")]


def twins(provider: str = "aten", precision: str = "fp32") -> tuple[Session, CompiledSession]:
    options = {"provider": provider, "precision": precision, "device": "cpu"}
    return Session(**options), CompiledSession(**options)  # type: ignore[arg-type]


def batch(seed: int) -> list[Any]:
    source = np.random.default_rng(seed)
    return [source.standard_normal((2, 2)).astype(np.float32), source.integers(0, 2, 2)]


def noisy(ops: Any, w: Any, b: Any, x: Any, labels: Any) -> Any:
    """A loss with what a recording could get wrong: noise, a constant, a row chosen by labels."""
    ops.rand_uniform(shape=(3,), seed=1)
    hidden = ops.dropout(ops.relu(ops.linear(x, w, b) * 0.5), p=0.25, seed=2)
    late = hidden + ops.rand_normal(shape=(2,), seed=3) * ops.constant(0.125)
    return ops.cross_entropy(late, labels)


def trainers(loss: Callable[..., Any], **options: Any) -> tuple[ScalarTrainer, ScalarTrainer]:
    start = [[[1.0, -2.0], [0.5, 1.0]], [0.25, -1.0]]
    made = [
        scalar_trainer(loss, start, interpreter=interpreter, **{**CPU, **options})
        for interpreter in ("eager", "compiled")
    ]
    return made[0], made[1]


def held() -> tuple[int, int]:
    now = counters.snapshot()
    return now.live_bytes, now.live_buffers
