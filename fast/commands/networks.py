"""The networks of the digits job: one program of each for every interpreter.

A further network is one more record in `NETWORKS`. Weights are drawn by He's uniform rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from fast.device.named import NamedBuffer
from fast.session import Session

CLASSES = 10
PIXELS = 64
EPS = 1e-5

Values = dict[str, np.ndarray]
"""Arrays by the names of parameters and buffers."""


def no_buffers(hidden: int) -> Values:
    """Return the first values of a network that has no buffers."""
    return {}


@dataclass(frozen=True)
class Network:
    """What is trained, and how its answer is computed afterwards.

    program(ops, *parameters, x, labels, *buffers) returns the mean cross-entropy of a batch in
    training. parameters(hidden, seed) and buffers(hidden) return the first values by name, in the
    program's order. logits(values, x) computes in NumPy, from the values of both by name. Recorded
    steps of a `deep` network hold its nodes: what each call of `ops` has returned, and the
    cotangent of that.
    """

    program: Callable[..., Any]
    parameters: Callable[[int, int], Values]
    logits: Callable[[Mapping[str, np.ndarray], np.ndarray], np.ndarray]
    buffers: Callable[[int], Values] = no_buffers
    deep: bool = False

    def accuracy(
        self, values: Mapping[str, np.ndarray], test: tuple[np.ndarray, np.ndarray]
    ) -> float:
        """Return the share of images whose largest logit is their label."""
        x, labels = test
        return float(np.mean(self.logits(values, x).argmax(axis=1) == labels))


class Noted:
    """What a program receives as `ops`: a session, and a note of what each call has returned."""

    def __init__(self, ops: Any) -> None:
        """Wrap a session."""
        self._ops = ops
        self.results: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        """Find an operation of the session, which notes its result."""
        found = getattr(self._ops, name)
        if not callable(found):
            return found

        def call(*inputs: Any, **attributes: Any) -> Any:
            self.results.append(found(*inputs, **attributes))
            return self.results[-1]

        return call


def nodes_of(session: Session, refs: Sequence[Any]) -> dict[str, Tensor]:
    """Download the nodes of a program that ends with its loss, and their cotangents."""
    with session.backward_dense(refs[-1]) as grads:
        back = {f"node_grad/{k}": session.grad(grads, ref) for k, ref in enumerate(refs)}
    return {f"node/{k}": session.value(ref) for k, ref in enumerate(refs)} | back


@dataclass(frozen=True)
class Bound:
    """A program with the buffers that it updates; two of the same are one to a session."""

    program: Callable[..., Any]
    buffers: tuple[NamedBuffer, ...]
    noted: bool

    def __call__(self, ops: Any, *given: Any) -> Any:
        """Run the program on parameters and data, with the buffers behind them."""
        if not self.noted:
            return self.program(ops, *given, *self.buffers)
        noted = Noted(ops)
        self.program(noted, *given, *self.buffers)
        return tuple(noted.results)


def bound(
    program: Callable[..., Any], buffers: Sequence[NamedBuffer], noted: bool = False
) -> Callable[..., Any]:
    """Return what a session runs, which returns the loss or, where they are noted, all nodes."""
    return Bound(program, tuple(buffers), noted) if buffers or noted else program


def _weight(draw: np.random.Generator, wide: int, deep: int) -> np.ndarray:
    bound = np.sqrt(6.0 / deep)
    return draw.uniform(-bound, bound, (wide, deep)).astype(np.float32)


def _zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.float32)


def _ones(count: int) -> np.ndarray:
    return np.ones(count, np.float32)


def digits_mlp(ops: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of a perceptron with one hidden layer of relu units."""
    hidden = ops.relu(ops.linear(x, w1, b1))
    return ops.cross_entropy(ops.linear(hidden, w2, b2), labels)


def _perceptron(hidden: int, seed: int) -> Values:
    draw = np.random.default_rng(seed)
    return {
        "w1": _weight(draw, hidden, PIXELS),
        "b1": _zeros(hidden),
        "w2": _weight(draw, CLASSES, hidden),
        "b2": _zeros(CLASSES),
    }


def _perceptron_logits(values: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    hidden = np.maximum(x @ values["w1"].T + values["b1"], 0)
    return hidden @ values["w2"].T + values["b2"]


def digits_batch_norm(
    ops: Any, w1: Any, gamma: Any, beta: Any, w2: Any, b2: Any, x: Any, labels: Any,
    running_mean: Any, running_var: Any,
) -> Any:  # fmt: skip
    """Return the mean cross-entropy of a perceptron whose hidden units see a normalized batch."""
    # A bias would go with the mean of the batch: its gradient is 0.
    units = ops.linear(x, w1, ops.constant(0, w1.shape[:1], like=x))
    units = ops.batch_norm(units, gamma, beta, running_mean, running_var, training=True, eps=EPS)
    return ops.cross_entropy(ops.linear(ops.relu(units), w2, b2), labels)


def _batch_norm(hidden: int, seed: int) -> Values:
    draw = np.random.default_rng(seed)
    return {
        "w1": _weight(draw, hidden, PIXELS),
        "gamma": _ones(hidden),
        "beta": _zeros(hidden),
        "w2": _weight(draw, CLASSES, hidden),
        "b2": _zeros(CLASSES),
    }


def _statistics(hidden: int) -> Values:
    return {"running_mean": _zeros(hidden), "running_var": _ones(hidden)}


def _batch_norm_logits(values: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    centred = x @ values["w1"].T - values["running_mean"]
    normal = centred / np.sqrt(values["running_var"] + EPS)
    hidden = np.maximum(values["gamma"] * normal + values["beta"], 0)
    return hidden @ values["w2"].T + values["b2"]


def digits_residual(
    ops: Any, w1: Any, b1: Any, gamma2: Any, beta2: Any, w2: Any, b2: Any,
    gamma3: Any, beta3: Any, w3: Any, b3: Any, gamma4: Any, beta4: Any, w4: Any, b4: Any,
    x: Any, labels: Any,
) -> Any:  # fmt: skip
    """Return the mean cross-entropy of two residual blocks between a first and a last layer."""
    h = ops.linear(x, w1, b1)
    for gamma, beta, w, b in ((gamma2, beta2, w2, b2), (gamma3, beta3, w3, b3)):
        h = ops.add(h, ops.linear(ops.relu(ops.layer_norm(h, gamma, beta, eps=EPS)), w, b))
    normal = ops.layer_norm(h, gamma4, beta4, eps=EPS)
    return ops.cross_entropy(ops.linear(normal, w4, b4), labels)


def _residual(hidden: int, seed: int) -> Values:
    draw = np.random.default_rng(seed)
    values = {"w1": _weight(draw, hidden, PIXELS), "b1": _zeros(hidden)}
    for k, wide in enumerate((hidden, hidden, CLASSES), 2):
        values |= {f"gamma{k}": _ones(hidden), f"beta{k}": _zeros(hidden)}
        values |= {f"w{k}": _weight(draw, wide, hidden), f"b{k}": _zeros(wide)}
    return values


def _residual_logits(values: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    def layer(k: int, h: np.ndarray) -> np.ndarray:
        return h @ values[f"w{k}"].T + values[f"b{k}"]

    def normal(k: int, h: np.ndarray) -> np.ndarray:
        centred = h - h.mean(axis=1, keepdims=True)
        root = np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + EPS)
        return values[f"gamma{k}"] * (centred / root) + values[f"beta{k}"]

    h = layer(1, x)
    for k in (2, 3):
        h = h + layer(k, np.maximum(normal(k, h), 0))
    return layer(4, normal(4, h))


NETWORKS = {
    "perceptron": Network(digits_mlp, _perceptron, _perceptron_logits),
    "batch_norm": Network(digits_batch_norm, _batch_norm, _batch_norm_logits, _statistics),
    "residual": Network(digits_residual, _residual, _residual_logits, deep=True),
}
"""All networks, by the names that the command knows them by."""

DEFAULT = "perceptron"
"""The network of a job, a checkpoint or a run that names none."""
