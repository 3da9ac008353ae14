"""Wrong after another call: what was kept under too short a name is taken for this call's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.torch.backend import OPS
from population.record import wrong
from spec.ops.chain import read

NAMES = "compiled kernels that are kept by the names of their steps"
SHAPES = "plans that are kept by shape"


@wrong("chain value", "lifetime", source=NAMES)
class kept_by_names:
    """A chain is compiled once for the names of its steps, whatever their attributes are."""

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}

    def __call__(self, x: Tensor, steps: Sequence[Any]) -> Tensor:
        names = tuple(name for name, _ in read(steps))
        for name, attributes in self.known.setdefault(names, read(steps)):
            x = OPS[name](x, **attributes)
        return x


@wrong("softmax value", "lifetime", source=SHAPES)
class axis_kept_by_shape:
    """The axis of a shape is that of the first call with it."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def __call__(self, x: Tensor, axis: int = -1) -> Tensor:
        return torch.softmax(x, self.known.setdefault(tuple(x.shape), axis))


@wrong("layer_norm value", "lifetime", source=SHAPES)
class eps_kept_by_shape:
    """The eps of a shape is that of the first call with it."""

    def __init__(self) -> None:
        self.known: dict[Any, float] = {}

    def __call__(self, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
        own = self.known.setdefault(tuple(x.shape), eps)
        return torch.nn.functional.layer_norm(x, gamma.shape, gamma, beta, own)
