"""Adadelta: the size of a step follows from the sizes of earlier steps and gradients.

    g = -g                          if maximize
    g = g + weight_decay * p
    v = rho * v + (1 - rho) * g^2
    d = sqrt(u + eps) / sqrt(v + eps) * g
    u = rho * u + (1 - rho) * d^2
    p = p - lr * d

eps stands inside both roots, so that the first step is not 0.

C1  lr and weight_decay are finite and >= 0.
C2  rho lies in [0, 1).
C3  eps is finite and > 0.
C4  maximize is True or False.

Reference: Zeiler, arXiv:1212.5701, algorithm 1; PyTorch's torch.optim.Adadelta.

>>> from spec.tensor import tensor
>>> p, state = update(tensor([1.0]), tensor([1.0]), init(tensor([1.0])), Adadelta(rho=0.0, eps=3.0))
>>> p, state.square_avg, state.step
(Tensor([0.1339745962155614]), Tensor([1.0]), 1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, zeros_like
from spec.optim._hypers import (
    NO_BETAS,
    NO_FLAGS,
    NO_SIZES,
    need_betas,
    need_flag,
    need_positive,
    need_sizes,
)  # fmt: skip
from spec.optim._optimizer import Optimizer
from spec.optim._steered import steered
from spec.scalar import divide, lift, sqrt, square
from spec.tensor import zip_map


@dataclass(frozen=True)
class Adadelta:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0.0
    maximize: bool = False

    def __post_init__(self) -> None:
        """Refuse what breaks C1, C2, C3 or C4."""
        need_sizes("adadelta C1", self, "lr", "weight_decay")
        need_betas("adadelta C2", self, "rho")
        need_positive("adadelta C3", self, "eps")
        need_flag("adadelta C4", self, "maximize")


@dataclass(frozen=True)
class State:
    """What is remembered between steps: means of squares, of gradients and of steps; the count."""

    square_avg: AnyTensor
    acc_delta: AnyTensor
    step: int = 0


def init(parameter: AnyTensor) -> State:
    """Return the state before the first step."""
    return State(zeros_like(parameter), zeros_like(parameter))


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: Adadelta
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors share one shape."""
    gradient = steered(parameter, gradient, hyper.weight_decay, hyper.maximize)
    averaged, eps, rate = _averaged(Fraction(hyper.rho)), Fraction(hyper.eps), Fraction(hyper.lr)

    def scaled(u: Any, v: Any, g: Any) -> Any:
        return divide(sqrt(u + lift(u, eps)), sqrt(v + lift(v, eps))) * g

    def moved(p: Any, d: Any) -> Any:
        return p - lift(d, rate) * d

    squares = zip_map(averaged, state.square_avg, gradient)
    delta = zip_map(scaled, state.acc_delta, squares, gradient)
    after = State(squares, zip_map(averaged, state.acc_delta, delta), state.step + 1)
    return zip_map(moved, parameter, delta), after


def _averaged(rho: Fraction) -> Callable[[Any, Any], Any]:
    def entry(mean: Any, x: Any) -> Any:
        return lift(mean, rho) * mean + lift(x, 1 - rho) * square(x)

    return entry


optimizer = Optimizer(
    "adadelta", Adadelta, State, init, update, torch="Adadelta",
    squares=("square_avg", "acc_delta"),
    tried={
        "lr": (1.0, 0.5, 1e-3, 0.0), "rho": (0.9, 0.0, 0.6, 0.99), "eps": (1e-6, 1e-3, 1.0),
        "weight_decay": (0.0, 1e-2, 1.0)},
    extras={"maximize": (False, True)},
    alone=("lr", "rho", "eps", "weight_decay"),
    refused=(
        *(("C1", {name: bad}) for name in ("lr", "weight_decay") for bad in NO_SIZES),
        *(("C2", {"rho": bad}) for bad in NO_BETAS),
        *(("C3", {"eps": bad}) for bad in (0.0, *NO_SIZES)),
        *(("C4", {"maximize": bad}) for bad in NO_FLAGS),
    ),
)  # fmt: skip
