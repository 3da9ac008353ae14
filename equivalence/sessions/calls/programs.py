"""The programs that runs of calls share: twelve losses of the same four parameters.

They are few, so that an engine which compiles meets each of them many times. Between them they have
what a plan may get wrong: labels, masks, numbers that are drawn, results that are a parameter's own
memory, a parameter for two arguments, values with several readers, attributes alone that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from equivalence.sessions.numbers import integers, normal

Refs = tuple[Any, ...]

ROWS, FEATURES, HIDDEN, CLASSES = 2, 2, 3, 2
SHAPES = ((HIDDEN, FEATURES), (HIDDEN,), (CLASSES, HIDDEN), (CLASSES,))
"""The parameters: two layers."""

SGD = {"momentum": 0.5, "dampening": 0.25, "weight_decay": 0.125}
ADAMW = {"weight_decay": 0.125}


@dataclass(frozen=True)
class Shared:
    """A program, by which parameters it is called, what its data are, and how one updates by it.

    It returns a scalar first. `data` draws what follows the parameters, in a given dtype.
    """

    run: Callable[..., Refs]
    data: Callable[[int, torch.dtype], list[Tensor]]
    params: tuple[int, ...] = (0, 1, 2, 3)
    optimizer: str = "sgd"
    hyper: Mapping[str, Any] = field(default_factory=lambda: SGD)


def numbers(seed: int, dtype: torch.dtype) -> list[Tensor]:
    """Draw a batch."""
    return [normal(seed, ROWS, FEATURES).to(dtype)]


def labelled(seed: int, dtype: torch.dtype) -> list[Tensor]:
    """Draw a batch and labels, of 64 bits or of 32."""
    labels = integers(seed + 1, CLASSES, ROWS)
    return [*numbers(seed, dtype), labels.to((torch.int64, torch.int32)[seed % 2])]


def masked(seed: int, dtype: torch.dtype) -> list[Tensor]:
    """Draw a batch and a mask."""
    return [*numbers(seed, dtype), integers(seed + 1, 2, ROWS, HIDDEN) == 1]


def plain(ops: Any, w: Any, b: Any, u: Any, c: Any, x: Any) -> Refs:
    """A layer and a sum of squares, which the second layer does not reach."""
    return (ops.sum(ops.square(ops.linear(x, w, b))),)


def scores(ops: Any, w: Any, b: Any, u: Any, c: Any, x: Any, y: Any) -> Refs:
    """Two layers and labels; the scores beside the loss."""
    found = ops.linear(ops.tanh(ops.linear(x, w, b)), u, c)
    return ops.cross_entropy(found, y), found


def chosen(ops: Any, w: Any, b: Any, u: Any, c: Any, x: Any, mask: Any) -> Refs:
    """Units that a mask chooses."""
    h = ops.where(mask, ops.linear(x, w, b), ops.constant(0.5, shape=(ROWS, HIDDEN)))
    return ops.sum(ops.square(ops.linear(h, u, c))), h


def dropped(ops: Any, w: Any, b: Any, u: Any, c: Any, x: Any) -> Refs:
    """Units that are drawn."""
    h = ops.dropout(ops.linear(x, w, b), p=0.5, seed=1)
    return ops.sum(ops.square(ops.linear(h, u, c))), h


def lent(ops: Any, w: Any, b: Any, u: Any, c: Any, x: Any) -> Refs:
    """Results that are memory of parameters, which the update overwrites."""
    turned = ops.reshape(w, shape=(FEATURES, HIDDEN))
    return ops.sum(ops.square(ops.linear(ops.linear(x, w, b), u, c))), turned, b


def tied(ops: Any, w: Any, again: Any, b: Any, u: Any, c: Any, x: Any) -> Refs:
    """A parameter that is handed in for two arguments."""
    h = ops.tanh(ops.linear(x, w, b)) + ops.linear(x, again, b)
    return ops.sum(ops.square(ops.linear(h, u, c))), h


def reread(ops: Any, w: Any, b: Any, u: Any, c: Any, x: Any) -> Refs:
    """Values with several readers, early and late."""
    h = ops.linear(x, w, b)
    g = ops.tanh(h)
    return ops.sum(ops.square(ops.linear(ops.mul(g, h) + h, u, c))), g


def along(axis: int) -> Callable[..., Refs]:
    """Compare along an axis: the two programs differ in nothing else."""

    def compared(ops: Any, w: Any, b: Any, u: Any, c: Any, x: Any) -> Refs:
        h = ops.softmax(ops.linear(x, w, b), axis=axis)
        return ops.sum(ops.square(ops.linear(h, u, c))), h

    return compared


def normed(ops: Any, w: Any, b: Any, u: Any, c: Any, x: Any) -> Refs:
    """A mean and a scale of rows."""
    h = ops.softmax(ops.sum(ops.square(ops.linear(x, w, b)), axes=(0,)), axis=0)
    return ops.sum(ops.square(ops.mul(ops.linear(x, w, b), h))), h


def halved(ops: Any, w: Any, b: Any, u: Any, c: Any, x: Any) -> Refs:
    """A gradient that is stopped on one of two ways, and numbers of the program's own."""
    h = ops.linear(x, w, b)
    return ops.sum(ops.mul(ops.linear(h, u, c), ops.detach(ops.linear(h, u, c)) * 0.5)), h


def alone(ops: Any, w: Any, b: Any, u: Any, c: Any, x: Any) -> Refs:
    """A loss of parameters alone, which data do not reach."""
    return ops.sum(ops.square(w)) + ops.sum(ops.mul(ops.tanh(c), c)), ops.linear(x, w, b)


CLIPPED = {"max_norm": 0.25}

SHARED: tuple[Shared, ...] = (
    Shared(scores, labelled, optimizer="adamw", hyper=ADAMW | CLIPPED),
    Shared(tied, numbers, (0, 0, 1, 2, 3)),
    Shared(lent, numbers),
    Shared(dropped, numbers, optimizer="adamw", hyper=ADAMW),
    Shared(plain, numbers),
    Shared(chosen, masked, hyper=SGD | CLIPPED),
    Shared(reread, numbers, optimizer="adamw", hyper=ADAMW),
    Shared(along(0), numbers),
    Shared(along(1), numbers),
    Shared(normed, numbers),
    Shared(halved, numbers),
    Shared(alone, numbers, optimizer="adamw", hyper=ADAMW),
)
"""All of them; a run of a small profile has the first few."""
