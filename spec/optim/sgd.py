"""Stochastic gradient descent, with momentum, dampening, Nesterov's form and weight decay.

    g = -g                      if maximize
    g = g + weight_decay * p
    b = momentum * b + (1 - dampening) * g      (the first time, b = g)
    d = g + momentum * b    if nesterov, else b (without momentum, d = g)
    p = p - lr * d

C1  lr, momentum and weight_decay are finite and >= 0, and dampening is finite.
C2  nesterov needs momentum > 0 and dampening = 0.
C3  maximize is True or False.

Reference: PyTorch's torch.optim.SGD.

>>> from spec.tensor import tensor
>>> update(tensor([1.0]), tensor([2.0]), State(), Sgd(lr=0.25))[0]
Tensor([0.5])
"""

# This page is longer than the guide because momentum has three forms.

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, refuse
from spec.optim._hypers import NO_FLAGS, NO_SIZES, need_flag, need_sizes
from spec.optim._optimizer import Hypers, Optimizer
from spec.optim._steered import steered
from spec.scalar import lift
from spec.tensor import zip_map
from spec.worlds import is_number


@dataclass(frozen=True)
class Sgd:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    maximize: bool = False

    def __post_init__(self) -> None:
        """Refuse what breaks C1, C2 or C3."""
        need_sizes("sgd C1", self, "lr", "momentum", "weight_decay")
        if not (is_number(self.dampening) and math.isfinite(self.dampening)):
            raise refuse("sgd C1", "dampening is finite", repr(self.dampening))
        need_flag("sgd C2", self, "nesterov")
        need_flag("sgd C3", self, "maximize")
        if self.nesterov and (self.momentum <= 0 or self.dampening != 0):
            rule = "nesterov needs momentum > 0 and dampening = 0"
            raise refuse("sgd C2", rule, f"momentum {self.momentum}, dampening {self.dampening}")


@dataclass(frozen=True)
class State:
    """What is remembered between steps: the momentum buffer, None before the first step."""

    momentum_buffer: AnyTensor | None = None


def init(parameter: AnyTensor) -> State:
    """Return the state before the first step, which is the same for every parameter."""
    del parameter
    return State()


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: Sgd
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors share one shape."""
    direction = steered(parameter, gradient, hyper.weight_decay, hyper.maximize)
    if hyper.momentum:
        buffer = direction
        if state.momentum_buffer is not None:
            buffer = _blend(state.momentum_buffer, direction, hyper)
        state = State(buffer)
        direction = _axpy(hyper.momentum, buffer, direction) if hyper.nesterov else buffer
    return _axpy(-hyper.lr, direction, parameter), state


def _axpy(factor: float, x: AnyTensor, y: AnyTensor) -> AnyTensor:
    """Return factor * x + y."""
    exact = Fraction(factor)

    def entry(a: Any, b: Any) -> Any:
        return lift(a, exact) * a + b

    return zip_map(entry, x, y)


def _blend(buffer: AnyTensor, direction: AnyTensor, hyper: Sgd) -> AnyTensor:
    kept, added = Fraction(hyper.momentum), 1 - Fraction(hyper.dampening)

    def entry(b: Any, g: Any) -> Any:
        return lift(b, kept) * b + lift(g, added) * g

    return zip_map(entry, buffer, direction)


def permitted(hyper: Hypers) -> dict[str, Any]:
    """Give Nesterov's form what C2 asks for."""
    asked = {"momentum": hyper["momentum"] or 0.9, "dampening": 0.0}
    return {**hyper, **(asked if hyper["nesterov"] else {})}


optimizer = Optimizer(
    "sgd", Sgd, State, init, update, permitted=permitted, torch="SGD",
    tried={
        "lr": (0.5, 1e-3, 0.0, 1.0), "momentum": (0.0, 0.9, 0.5), "dampening": (0.0, 0.5),
        "weight_decay": (0.0, 1e-2, 1.0), "nesterov": (False, True)},
    extras={"maximize": (False, True)},
    alone=("lr", "momentum", "weight_decay"),
    refused=(
        *(("C1", {name: bad}) for name in ("lr", "momentum", "weight_decay") for bad in NO_SIZES),
        *(("C1", {"dampening": bad}) for bad in (math.nan, math.inf, -math.inf)),
        *(("C2", {"nesterov": bad}) for bad in (1, True)),
        ("C2", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        *(("C3", {"maximize": bad}) for bad in NO_FLAGS),
    ),
)  # fmt: skip
