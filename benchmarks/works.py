"""What whole training steps are timed on: a program, its parameters and a batch, in three dialects.

A program is written once for `ops` of ours, once for torch, once for JAX. Where nothing is drawn at
random, all three compute the same losses, which a run checks before it times anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch.nn import functional

DROPPED = 0.25


@dataclass(frozen=True)
class Work:
    """One training step: our program, torch's, JAX's, the shapes of parameters, and the batch.

    A program takes parameters in the order of `shapes`, then x and labels; JAX's takes a key first.
    `draws` says that masks are drawn, so that losses of two libraries differ.
    """

    name: str
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    jax: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    batch: int
    features: int
    draws: bool = False

    def parameters(self) -> list[np.ndarray]:
        """Draw weights by He's uniform rule; a vector is of ones, as a gain is, or of zeros."""
        draw = np.random.default_rng(0)
        found = []
        for shape in self.shapes:
            if len(shape) == 1:
                found.append(np.full(shape, float(shape == self.gain), np.float32))
            else:
                bound = np.sqrt(6.0 / shape[1])
                found.append(draw.uniform(-bound, bound, shape).astype(np.float32))
        return found

    @property
    def gain(self) -> tuple[int, ...] | None:
        """The shape of the vector that is a gain, if there is one."""
        return self.shapes[2] if self.name == "normed" else None

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw a batch of pixels and labels."""
        draw = np.random.default_rng(1)
        x = draw.uniform(0, 1, (self.batch, self.features)).astype(np.float32)
        return x, draw.integers(0, 10, self.batch)


def mlp(ops: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, labels: Any) -> Any:
    """A perceptron with one hidden layer; `ops` may be torch.nn.functional, too."""
    return ops.cross_entropy(ops.linear(ops.relu(ops.linear(x, w1, b1)), w2, b2), labels)


def layers(ops: Any, *given: Any) -> Any:
    """A perceptron of as many layers as weights are given; `ops` may be torch.nn.functional."""
    *params, x, labels = given
    for at in range(0, len(params) - 2, 2):
        x = ops.relu(ops.linear(x, params[at], params[at + 1]))
    return ops.cross_entropy(ops.linear(x, params[-2], params[-1]), labels)


def deep(
    ops: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, labels: Any
) -> Any:
    """A perceptron with two hidden layers; `ops` may be torch.nn.functional, too."""
    hidden = ops.relu(ops.linear(ops.relu(ops.linear(x, w1, b1)), w2, b2))
    return ops.cross_entropy(ops.linear(hidden, w3, b3), labels)


def dropped(ops: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, labels: Any) -> Any:
    """A perceptron with gelu and dropout."""
    hidden = ops.dropout(ops.gelu(ops.linear(x, w1, b1)), p=DROPPED, seed=0)
    return ops.cross_entropy(ops.linear(hidden, w2, b2), labels)


def torch_dropped(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, labels: Any) -> Any:
    """Do as `dropped`."""
    hidden = functional.dropout(functional.gelu(functional.linear(x, w1, b1)), DROPPED)
    return functional.cross_entropy(functional.linear(hidden, w2, b2), labels)


def normed(ops: Any, w1: Any, b1: Any, g: Any, c: Any, w2: Any, x: Any, labels: Any) -> Any:
    """A hidden layer, layer_norm, and a softmax that gates it."""
    hidden = ops.layer_norm(ops.linear(x, w1, b1), g, c)
    return ops.cross_entropy((hidden * ops.softmax(hidden)) @ ops.permute(w2, axes=(1, 0)), labels)


def torch_normed(w1: Any, b1: Any, g: Any, c: Any, w2: Any, x: Any, labels: Any) -> Any:
    """Do as `normed`."""
    hidden = functional.layer_norm(functional.linear(x, w1, b1), g.shape, g, c)
    return functional.cross_entropy((hidden * hidden.softmax(-1)) @ w2.t(), labels)


def _jax_loss(scores: Any, labels: Any) -> Any:
    import jax

    picked = jax.nn.log_softmax(scores)[jax.numpy.arange(len(labels)), labels]
    return -picked.mean()


def jax_mlp(key: Any, *given: Any) -> Any:
    """Do as `mlp`, `layers` and `deep`, by the number of layers."""
    import jax

    *params, x, labels = given
    for at in range(0, len(params) - 2, 2):
        x = jax.nn.relu(x @ params[at].T + params[at + 1])
    return _jax_loss(x @ params[-2].T + params[-1], labels)


def jax_dropped(key: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, labels: Any) -> Any:
    """Do as `dropped`, by JAX's own generator."""
    import jax

    hidden = jax.nn.gelu(x @ w1.T + b1, approximate=False)
    kept = jax.random.bernoulli(key, 1 - DROPPED, hidden.shape)
    return _jax_loss((hidden * kept / (1 - DROPPED)) @ w2.T + b2, labels)


def jax_normed(key: Any, w1: Any, b1: Any, g: Any, c: Any, w2: Any, x: Any, labels: Any) -> Any:
    """Do as `normed`."""
    import jax

    hidden = x @ w1.T + b1
    centred = hidden - hidden.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    hidden = centred / jax.numpy.sqrt(variance + 1e-5) * g + c
    return _jax_loss((hidden * jax.nn.softmax(hidden)) @ w2.T, labels)


DIGITS = ((128, 64), (128,), (10, 128), (10,))
NORMED = ((128, 64), (128,), (128,), (128,), (10, 128))
WIDE = ((1024, 784), (1024,), (1024, 1024), (1024,), (10, 1024), (10,))

WORKS = (
    Work("digits", mlp, partial(mlp, functional), jax_mlp, DIGITS, 32, 64),
    Work("gelu and dropout", dropped, torch_dropped, jax_dropped, DIGITS, 32, 64, draws=True),
    Work("normed", normed, torch_normed, jax_normed, NORMED, 32, 64),
    Work("784-1024-1024-10", deep, partial(deep, functional), jax_mlp, WIDE, 128, 784),
)
"""All works, by what they are for: a small net, masks, normalization, products that dominate."""
