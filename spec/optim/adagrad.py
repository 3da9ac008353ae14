"""Adagrad: each entry's rate falls with the squares of its gradients, which are added up.

    g = -g                          if maximize
    g = g + weight_decay * p
    s = s + g^2                     (before the first step, s is initial_accumulator_value)
    p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

t counts this parameter's own steps from 1, and eps stands outside the root.

C1  lr, lr_decay, weight_decay and initial_accumulator_value are finite and >= 0.
C2  eps is finite and > 0.
C3  maximize is True or False.

Reference: Duchi, Hazan and Singer, JMLR 2011, figure 1; PyTorch's torch.optim.Adagrad.

>>> from spec.tensor import tensor
>>> hyper = Adagrad(lr=0.5, initial_accumulator_value=16.0, eps=1e-300)
>>> update(tensor([1.0]), tensor([3.0]), init(tensor([1.0])), hyper)
(Tensor([0.7]), State(sum=Tensor([25.0]), step=1))
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, zeros_like
from spec.optim._hypers import NO_FLAGS, NO_SIZES, need_flag, need_positive, need_sizes
from spec.optim._optimizer import Optimizer
from spec.optim._steered import steered
from spec.scalar import divide, lift, sqrt, square
from spec.tensor import zip_map

SIZES = ("lr", "lr_decay", "weight_decay", "initial_accumulator_value")
"""The hyper-parameters of C1."""


@dataclass(frozen=True)
class Adagrad:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10
    maximize: bool = False

    def __post_init__(self) -> None:
        """Refuse what breaks C1, C2 or C3."""
        need_sizes("adagrad C1", self, *SIZES)
        need_positive("adagrad C2", self, "eps")
        need_flag("adagrad C3", self, "maximize")


@dataclass(frozen=True)
class State:
    """What is remembered between steps: the sum of squares, and the count."""

    sum: AnyTensor
    step: int = 0


def init(parameter: AnyTensor) -> State:
    """Return the state before the first step, which takes no sum from it."""
    return State(zeros_like(parameter))


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: Adagrad
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors share one shape."""
    gradient = steered(parameter, gradient, hyper.weight_decay, hyper.maximize)
    first, start = not state.step, Fraction(hyper.initial_accumulator_value)
    rate = Fraction(hyper.lr) / (1 + state.step * Fraction(hyper.lr_decay))

    def added(s: Any, g: Any) -> Any:
        return (lift(g, start) if first else s) + square(g)

    def moved(p: Any, g: Any, s: Any) -> Any:
        return p - divide(lift(g, rate) * g, sqrt(s) + lift(s, Fraction(hyper.eps)))

    after = State(zip_map(added, state.sum, gradient), state.step + 1)
    return zip_map(moved, parameter, gradient, after.sum), after


optimizer = Optimizer(
    "adagrad",
    Adagrad,
    State,
    init,
    update,
    squares=("sum",),
    torch="Adagrad",
    tried={
        "lr": (1e-2, 0.5, 1e-3, 0.0),
        "lr_decay": (0.0, 0.5, 1e-3),
        "weight_decay": (0.0, 1e-2, 1.0),
        "initial_accumulator_value": (0.0, 0.1, 2.0),
        "eps": (1e-10, 1e-3, 1.0),
    },
    extras={"maximize": (False, True)},
    alone=("lr", "lr_decay", "weight_decay", "eps"),
    refused=(
        *(("C1", {name: bad}) for name in SIZES for bad in NO_SIZES),
        *(("C2", {"eps": bad}) for bad in (0.0, *NO_SIZES)),
        *(("C3", {"maximize": bad}) for bad in NO_FLAGS),
    ),
)
