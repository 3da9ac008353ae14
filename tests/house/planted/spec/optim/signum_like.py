"""A step of one size in every entry, by the sign of an average.

    m = beta * m + (1 - beta) * g
    p = (1 - lr * weight_decay) * p - lr * sign(m)

The sign of 0 is 0, and that of NaN is NaN. One moment is remembered, and no step is counted.

C1  lr and weight_decay are finite and >= 0.
C2  beta lies in [0, 1).

Reference: Bernstein et al., ICML 2018, algorithm 2 (Signum); this page exists in a test.

>>> from spec.tensor import tensor
>>> p, state = update(tensor([1.0]), tensor([8.0]), init(tensor([1.0])), SignumLike(0.5, beta=0.5))
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
class SignumLike:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float = 1e-4
    beta: float = 0.9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what breaks C1 or C2."""
        need_sizes("signum_like C1", self, "lr", "weight_decay")
        need_betas("signum_like C2", self, "beta")


@dataclass(frozen=True)
class State:
    """What is remembered between steps: one moment of the parameter's shape."""

    exp_avg: AnyTensor


def init(parameter: AnyTensor) -> State:
    """Return the state before the first step."""
    return State(zeros_like(parameter))


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: SignumLike
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors share one shape."""
    rate, kept = Fraction(hyper.lr), 1 - Fraction(hyper.lr) * Fraction(hyper.weight_decay)

    def moved(p: Any, m: Any) -> Any:
        return lift(p, kept) * p - lift(p, rate) * _sign(m)

    average = zip_map(_between(hyper.beta), state.exp_avg, gradient)
    return zip_map(moved, parameter, average), State(average)


def _between(beta: float) -> Callable[[Any, Any], Any]:
    kept = Fraction(beta)

    def entry(m: Any, g: Any) -> Any:
        return lift(m, kept) * m + lift(g, 1 - kept) * g

    return entry


def _sign(m: Any) -> Any:
    one = lift(m, Fraction(1))
    return select(less(0, m), one, select(less(m, 0), -one, m))


optimizer = Optimizer(
    "signum_like",
    SignumLike,
    State,
    init,
    update,
    decoupled=True,
    tried={
        "lr": (0.5, 0.125, 0.0),
        "beta": (0.9, 0.0, 0.5),
        "weight_decay": (0.0, 1e-2, 1.0),
    },
    alone=("lr", "beta", "weight_decay"),
    refused=(
        *(("C1", {name: bad}) for name in ("lr", "weight_decay") for bad in NO_SIZES),
        *(("C2", {"beta": bad}) for bad in NO_BETAS),
    ),
)
