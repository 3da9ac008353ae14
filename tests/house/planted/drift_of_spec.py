"""A moving average that pulls a parameter along, and decays it apart from the gradient.

    m = m + (1 - keep) * (g - m)
    p = p - lr * (m + weight_decay * p)

C1  lr and weight_decay are finite and >= 0.
C2  keep lies in [0, 1).

Reference: none; a house test adds this page to a copy of the tree.

>>> from spec.tensor import tensor
>>> update(tensor([1.0]), tensor([2.0]), init(tensor([1.0])), Drift(lr=0.5, keep=0.5))[0]
Tensor([0.5])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, refuse, zeros_like
from spec.optim._optimizer import NO_SIZES, Optimizer, need_sizes
from spec.scalar import lift
from spec.tensor import zip_map
from spec.worlds import is_number


@dataclass(frozen=True)
class Drift:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float
    keep: float = 0.9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what breaks C1 or C2."""
        need_sizes("drift C1", self, "lr", "weight_decay")
        if not (is_number(self.keep) and 0 <= self.keep < 1):
            raise refuse("drift C2", "keep lies in [0, 1)", repr(self.keep))


@dataclass(frozen=True)
class State:
    """What is remembered between steps: an average of the parameter's shape, and the count."""

    average: AnyTensor
    step: int = 0


def init(parameter: AnyTensor) -> State:
    """Return the state before the first step."""
    return State(zeros_like(parameter))


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: Drift
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors share one shape."""
    added, rate = 1 - Fraction(hyper.keep), Fraction(hyper.lr)
    decay = Fraction(hyper.weight_decay)

    def averaged(m: Any, g: Any) -> Any:
        return m + lift(g, added) * (g - m)

    def moved(p: Any, m: Any) -> Any:
        return p - lift(p, rate) * (m + lift(p, decay) * p)

    average = zip_map(averaged, state.average, gradient)
    return zip_map(moved, parameter, average), State(average, state.step + 1)


optimizer = Optimizer(
    "drift",
    Drift,
    State,
    init,
    update,
    decoupled=True,
    tried={"lr": (0.5, 1e-3, 0.0), "keep": (0.9, 0.0, 0.6), "weight_decay": (0.0, 1e-2, 1.0)},
    alone=("lr", "keep", "weight_decay"),
    refused=(
        *(("C1", {name: bad}) for name in ("lr", "weight_decay") for bad in NO_SIZES),
        *(("C2", {"keep": bad}) for bad in (-0.5, 1.0, math.nan)),
    ),
)
