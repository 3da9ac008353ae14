"""RMSprop: each entry's gradient is divided by the root of a mean of its squares.

    g = -g                          if maximize
    g = g + weight_decay * p
    v = alpha * v + (1 - alpha) * g^2
    m = m + (1 - alpha) * (g - m)                       if centered
    d = g / (sqrt(v) + eps), or g / (sqrt(max(v - m^2, 0)) + eps) if centered
    b = momentum * b + d                                if momentum > 0
    p = p - lr * b, or p - lr * d without momentum

eps stands outside the root. CHOICE: a variance below 0, which only rounding makes, is taken as 0;
torch takes its root, which is NaN.

C1  lr, weight_decay and momentum are finite and >= 0.
C2  alpha lies in [0, 1).
C3  eps is finite and > 0.
C4  centered and maximize are True or False.

Reference: Hinton, Coursera lecture 6e (2012); Graves, arXiv:1308.0850, section 2.1 (centered);
PyTorch's torch.optim.RMSprop.

>>> from spec.tensor import tensor
>>> hyper = RMSprop(lr=0.5, alpha=0.75, eps=1e-300, momentum=0.5)
>>> p, state = update(tensor([1.0]), tensor([4.0]), init(tensor([1.0])), hyper)
>>> p, state.square_avg, state.momentum_buffer, state.grad_avg
(Tensor([0.0]), Tensor([4.0]), Tensor([2.0]), None)
"""

# This page is longer than the guide because its settings choose among four updates.

from __future__ import annotations

from dataclasses import dataclass, replace
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
)
from spec.optim._optimizer import Hypers, Optimizer
from spec.optim._steered import steered
from spec.scalar import divide, lift, maximum, sqrt, square
from spec.tensor import zip_map

SIZES = ("lr", "weight_decay", "momentum")
"""The hyper-parameters of C1."""


@dataclass(frozen=True)
class RMSprop:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False
    maximize: bool = False

    def __post_init__(self) -> None:
        """Refuse what breaks C1, C2, C3 or C4."""
        need_sizes("rmsprop C1", self, *SIZES)
        need_betas("rmsprop C2", self, "alpha")
        need_positive("rmsprop C3", self, "eps")
        need_flag("rmsprop C4", self, "centered")
        need_flag("rmsprop C4", self, "maximize")


@dataclass(frozen=True)
class State:
    """What is remembered between steps: a mean of squares, what the settings ask for, the count."""

    square_avg: AnyTensor
    momentum_buffer: AnyTensor | None = None
    grad_avg: AnyTensor | None = None
    step: int = 0


def init(parameter: AnyTensor) -> State:
    """Return the state before the first step."""
    return State(zeros_like(parameter))


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: RMSprop
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors share one shape."""
    gradient = steered(parameter, gradient, hyper.weight_decay, hyper.maximize)
    alpha, eps, rate = Fraction(hyper.alpha), Fraction(hyper.eps), Fraction(hyper.lr)

    def second(v: Any, g: Any) -> Any:
        return lift(v, alpha) * v + lift(g, 1 - alpha) * square(g)

    def first(m: Any, g: Any) -> Any:
        return m + lift(g, 1 - alpha) * (g - m)

    def centered(v: Any, m: Any) -> Any:
        return maximum(v - square(m), lift(v, Fraction(0)))

    def divided(g: Any, v: Any) -> Any:
        return divide(g, sqrt(v) + lift(v, eps))

    def moved(p: Any, d: Any) -> Any:
        return p - lift(d, rate) * d

    spread = square_avg = zip_map(second, state.square_avg, gradient)
    after = replace(state, square_avg=square_avg, step=state.step + 1)
    if hyper.centered:
        mean = zip_map(first, _known(state.grad_avg, parameter), gradient)
        after = replace(after, grad_avg=mean)
        spread = zip_map(centered, square_avg, mean)
    direction = zip_map(divided, gradient, spread)
    if hyper.momentum:
        direction = _blended(hyper.momentum, _known(state.momentum_buffer, parameter), direction)
        after = replace(after, momentum_buffer=direction)
    return zip_map(moved, parameter, direction), after


def _known(moment: AnyTensor | None, parameter: AnyTensor) -> AnyTensor:
    """Return a moment, which starts from zeros."""
    return zeros_like(parameter) if moment is None else moment


def _blended(momentum: float, buffer: AnyTensor, direction: AnyTensor) -> AnyTensor:
    kept = Fraction(momentum)

    def entry(b: Any, d: Any) -> Any:
        return lift(b, kept) * b + d

    return zip_map(entry, buffer, direction)


def permitted(hyper: Hypers) -> dict[str, Any]:
    """Leave out alpha = 0 where gradients are centered: every variance is then 0 but for rounding.

    The page takes it; no budget could tell a right step from a wrong one.
    """
    return {**hyper, **({"alpha": hyper["alpha"] or 0.6} if hyper["centered"] else {})}


optimizer = Optimizer(
    "rmsprop",
    RMSprop,
    State,
    init,
    update,
    permitted=permitted,
    squares=("square_avg",),
    torch="RMSprop",
    tried={
        "lr": (1e-2, 0.5, 1e-3, 0.0),
        "alpha": (0.99, 0.0, 0.6, 0.9),
        "eps": (1e-8, 1e-3, 1.0),
        "weight_decay": (0.0, 1e-2, 1.0),
        "momentum": (0.0, 0.9, 0.5),
        "centered": (False, True),
    },
    extras={"maximize": (False, True)},
    alone=("lr", "alpha", "eps", "weight_decay"),
    refused=(
        *(("C1", {name: bad}) for name in SIZES for bad in NO_SIZES),
        *(("C2", {"alpha": bad}) for bad in NO_BETAS),
        *(("C3", {"eps": bad}) for bad in (0.0, *NO_SIZES)),
        *(("C4", {name: bad}) for name in ("centered", "maximize") for bad in NO_FLAGS),
    ),
)
