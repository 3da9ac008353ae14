"""Lion, which moves every entry by the same size: by the sign of a mean of gradients.

    c = beta1 * m + (1 - beta1) * g
    p = (1 - lr * weight_decay) * p - lr * sign(c)
    m = beta2 * m + (1 - beta2) * g

The sign of 0 is 0, and that of NaN is NaN. One moment is remembered, and no step is counted.

C1  lr and weight_decay are finite and >= 0.
C2  beta1 and beta2 lie in [0, 1).

Reference: Chen et al., NeurIPS 2023, algorithm 2. torch.optim does not have it.

>>> from spec.tensor import tensor
>>> p, state = update(tensor([1.0]), tensor([8.0]), init(tensor([1.0])), Lion(0.5, beta2=0.5))
>>> p, state
(Tensor([0.5]), State(exp_avg=Tensor([4.0])))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, zeros_like
from spec.optim._hypers import NO_BETAS, NO_SIZES, need_betas, need_sizes
from spec.optim._optimizer import Optimizer
from spec.scalar import less, lift, select
from spec.tensor import zip_map


@dataclass(frozen=True)
class Lion:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what breaks C1 or C2."""
        need_sizes("lion C1", self, "lr", "weight_decay")
        need_betas("lion C2", self, "beta1", "beta2")


@dataclass(frozen=True)
class State:
    """What is remembered between steps: one moment of the parameter's shape."""

    exp_avg: AnyTensor


def init(parameter: AnyTensor) -> State:
    """Return the state before the first step."""
    return State(zeros_like(parameter))


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: Lion
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors share one shape."""
    rate, kept = Fraction(hyper.lr), 1 - Fraction(hyper.lr) * Fraction(hyper.weight_decay)

    def moved(p: Any, c: Any) -> Any:
        return lift(p, kept) * p - lift(p, rate) * _sign(c)

    direction = zip_map(_between(hyper.beta1), state.exp_avg, gradient)
    average = zip_map(_between(hyper.beta2), state.exp_avg, gradient)
    return zip_map(moved, parameter, direction), State(average)


def _between(beta: float) -> Callable[[Any, Any], Any]:
    kept = Fraction(beta)

    def entry(m: Any, g: Any) -> Any:
        return lift(m, kept) * m + lift(g, 1 - kept) * g

    return entry


def _sign(c: Any) -> Any:
    one = lift(c, Fraction(1))
    return select(less(0, c), one, select(less(c, 0), -one, c))


optimizer = Optimizer(
    "lion",
    Lion,
    State,
    init,
    update,
    decoupled=True,
    tried={
        "lr": (1e-4, 0.5, 0.125, 0.0),
        "beta1": (0.9, 0.0, 0.6),
        "beta2": (0.99, 0.0, 0.6),
        "weight_decay": (0.0, 1e-2, 1.0),
    },
    alone=("lr", "beta1", "weight_decay"),
    refused=(
        *(("C1", {name: bad}) for name in ("lr", "weight_decay") for bad in NO_SIZES),
        *(("C2", {name: bad}) for name in ("beta1", "beta2") for bad in NO_BETAS),
    ),
)
