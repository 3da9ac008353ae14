"""Muon, which moves a matrix by the nearest thing to an orthogonal one that a few products give.

    b = momentum * b + (1 - momentum) * g       (b starts from zeros)
    u = momentum * b + (1 - momentum) * g   if nesterov, else b
    X = u / max(|u|, eps)                   u^T, where u has more rows than columns
    G = X X^T,  X = ns_a * X + (ns_b * G + ns_c * G G) X        ns_steps times
    O = X, or X^T where X began from u^T
    p = (1 - lr * weight_decay) * p - lr * r * O

|u| is the root of the sum of squares. r is sqrt(max(1, rows / columns)) for the original rate, and
sqrt(max(rows, columns)) / 5 for "match_rms_adamw". One moment is remembered, and no step is
counted. A matrix without entries stays as it is.

C1  lr and weight_decay are finite and >= 0.
C2  momentum lies in [0, 1).
C3  ns_a, ns_b and ns_c, which torch has as the triple ns_coefficients, are finite.
C4  eps is finite and > 0.
C5  ns_steps is an int from 0 to 99.
C6  nesterov is True or False.
C7  adjust_lr_fn is None, "original" or "match_rms_adamw".
C8  a parameter is a matrix.
C9  ns_dtype is None or "bf16".

The iteration has the dtype of the update (CHOICE). With ns_dtype "bf16" it is torch's: u,
max(|u|, eps), every X and G, and the factor ns_b * G + ns_c * G G are rounded to bfloat16, each
once. A world of exact numbers rounds nothing.

Reference: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; PyTorch's
torch.optim.Muon.

>>> from spec.tensor import tensor
>>> p, g = tensor([[1.0, 0.0]]), tensor([[3.0, 4.0]])
>>> update(p, g, init(p), Muon(lr=1.0, weight_decay=0.0, momentum=0.0, ns_steps=0))[0]
Tensor([[0.4, -0.8]])
"""

# This page is longer than the guide because an update is four things, one after another.

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, refuse, zeros_like
from spec.ops.matmul import value as product
from spec.ops.permute import value as permuted
from spec.optim._hypers import (
    NO_BETAS,
    NO_FLAGS,
    NO_SIZES,
    need_betas,
    need_flag,
    need_positive,
    need_sizes,
)  # fmt: skip
from spec.optim._optimizer import Hypers, Optimizer, Repeated
from spec.scalar import divide, in_bf16, lift, maximum, sqrt, square, sum_over
from spec.tensor import zip_map
from spec.worlds import is_number

RATES = (None, "original", "match_rms_adamw")
"""How the rate may follow from the extents of a matrix; None is the original way."""

DTYPES = (None, "bf16")
"""In which dtype an iteration may run; None is that of the update."""

MOST_STEPS = 99
"""The most iterations of an update."""


@dataclass(frozen=True)
class Muon:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_a: float = 3.4445
    ns_b: float = -4.775
    ns_c: float = 2.0315
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: str | None = None
    ns_dtype: str | None = None

    def __post_init__(self) -> None:
        """Refuse what breaks C1 to C7, or C9."""
        need_sizes("muon C1", self, "lr", "weight_decay")
        need_betas("muon C2", self, "momentum")
        for name in ("ns_a", "ns_b", "ns_c"):
            number = getattr(self, name)
            if not (is_number(number) and math.isfinite(number)):
                raise refuse("muon C3", f"{name} is finite", repr(number))
        need_positive("muon C4", self, "eps")
        if type(self.ns_steps) is not int or not 0 <= self.ns_steps <= MOST_STEPS:
            rule = f"ns_steps is an int from 0 to {MOST_STEPS}"
            raise refuse("muon C5", rule, repr(self.ns_steps))
        need_flag("muon C6", self, "nesterov")
        if self.adjust_lr_fn not in RATES:
            rule = f"adjust_lr_fn is one of {', '.join(map(repr, RATES))}"
            raise refuse("muon C7", rule, repr(self.adjust_lr_fn))
        if self.ns_dtype not in DTYPES:
            rule = f"ns_dtype is one of {', '.join(map(repr, DTYPES))}"
            raise refuse("muon C9", rule, repr(self.ns_dtype))


@dataclass(frozen=True)
class State:
    """What is remembered between steps: one moment of the parameter's shape."""

    momentum_buffer: AnyTensor


def init(parameter: AnyTensor) -> State:
    """Return the state of a matrix (C8) before the first step."""
    if len(parameter.shape) != 2:
        raise refuse("muon C8", "a parameter is a matrix", f"shape {parameter.shape}")
    return State(zeros_like(parameter))


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: Muon
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors are matrices of one shape."""
    buffer = _between(state.momentum_buffer, gradient, hyper)
    if 0 in parameter.shape:
        return parameter, State(buffer)
    x = started(_between(buffer, gradient, hyper) if hyper.nesterov else buffer, hyper)
    for _ in range(hyper.ns_steps):
        x = iterated(x, hyper)
    return moved(parameter, x, hyper), State(buffer)


def started(direction: AnyTensor, hyper: Muon) -> AnyTensor:
    """Return the first X, of which no singular value is above 1, with no more rows than columns."""
    direction = _held(direction, hyper)

    def squared(i: int, j: int) -> Any:
        return square(direction[i, j])

    norm = sqrt(sum_over(direction.shape, squared))
    length = maximum(norm, lift(norm, Fraction(hyper.eps)))
    if hyper.ns_dtype is not None:
        length = in_bf16(length)

    def entry(u: Any) -> Any:
        return divide(u, length)

    return _held(_lying(direction).map(entry), hyper)


def iterated(x: AnyTensor, hyper: Muon) -> AnyTensor:
    """Return the next X: every singular value s becomes ns_a s + ns_b s^3 + ns_c s^5."""
    gram = _held(product(x, _transposed(x)), hyper)
    mixed = _mixed(Fraction(hyper.ns_b), gram, Fraction(hyper.ns_c), product(gram, gram))
    kept = Fraction(hyper.ns_a)

    def entry(s: Any, change: Any) -> Any:
        return lift(s, kept) * s + change

    return _held(zip_map(entry, x, product(_held(mixed, hyper), x)), hyper)


def moved(parameter: AnyTensor, x: AnyTensor, hyper: Muon) -> AnyTensor:
    """Return the parameter after a step by the last X."""
    rows, columns = parameter.shape
    kept = 1 - Fraction(hyper.lr) * Fraction(hyper.weight_decay)
    direction = x if x.shape == parameter.shape else _transposed(x)

    def entry(p: Any, o: Any) -> Any:
        return lift(p, kept) * p - _rate(o, rows, columns, hyper) * o

    return zip_map(entry, parameter, direction)


def _rate(like: Any, rows: int, columns: int, hyper: Muon) -> Any:
    """Return the learning rate of a matrix of these extents, a number of like's world."""
    one = Fraction(1)  # One times an extent is exact, also where an extent is no int.
    like_adamw = hyper.adjust_lr_fn == "match_rms_adamw"
    ratio = one * max(rows, columns) / 25 if like_adamw else max(one, one * rows / columns)
    return lift(like, Fraction(hyper.lr)) * sqrt(lift(like, ratio))


def _between(mean: AnyTensor, gradient: AnyTensor, hyper: Muon) -> AnyTensor:
    """Return what lies between a mean and a gradient, by the momentum."""
    kept = Fraction(hyper.momentum)
    return _mixed(kept, mean, 1 - kept, gradient)


def _mixed(a: Fraction, x: AnyTensor, b: Fraction, y: AnyTensor) -> AnyTensor:
    """Return a x + b y."""

    def entry(s: Any, t: Any) -> Any:
        return lift(s, a) * s + lift(t, b) * t

    return zip_map(entry, x, y)


def _held(x: AnyTensor, hyper: Muon) -> AnyTensor:
    """Return x as an iteration holds it."""
    return x if hyper.ns_dtype is None else x.map(in_bf16)


def _transposed(x: AnyTensor) -> AnyTensor:
    return permuted(x, axes=(1, 0))


def _lying(x: AnyTensor) -> AnyTensor:
    """Return a matrix, or its transpose where it has more rows than columns."""
    return _transposed(x) if x.shape[0] > x.shape[1] else x


def shown(hyper: Hypers, turns: int) -> dict[str, Any]:
    """Return settings by which zeros become -r times the X of so many iterations."""
    plain = {"lr": 1.0, "weight_decay": 0.0, "adjust_lr_fn": None}
    return {**hyper, **plain, "ns_steps": turns}


def seen(left: AnyTensor, hyper: Muon) -> AnyTensor:
    """Return the X of what an update by such settings has left of zeros."""
    rows, columns = left.shape

    def entry(p: Any) -> Any:
        return divide(-p, _rate(p, rows, columns, hyper))

    return _lying(left).map(entry)


def last(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: Muon, x: AnyTensor
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after a step whose last iteration begins from x."""
    buffer = _between(state.momentum_buffer, gradient, hyper)
    return moved(parameter, iterated(x, hyper), hyper), State(buffer)


optimizer = Optimizer(
    "muon", Muon, State, init, update, torch="Muon",
    decoupled=True, elementwise=False, matrices=True,
    repeated=Repeated("ns_steps", shown, seen, last),
    tried={
        "lr": (0.5, 1e-3, 0.125, 0.0), "weight_decay": (0.1, 0.0, 1.0),
        "momentum": (0.95, 0.0, 0.6), "nesterov": (True, False),
        "ns_a": (3.4445, 1.5), "ns_b": (-4.775, -0.5), "ns_c": (2.0315, 0.0),
        "eps": (1e-7, 1e-3, 1.0), "ns_steps": (1, 0, 2),
        "adjust_lr_fn": (None, "match_rms_adamw", "original")},
    extras={"ns_dtype": DTYPES},
    alone=("lr", "weight_decay", "momentum", "eps", "ns_steps"),
    refused=(
        *(("C1", {name: bad}) for name in ("lr", "weight_decay") for bad in NO_SIZES),
        *(("C2", {"momentum": bad}) for bad in NO_BETAS),
        *(("C3", {n: bad}) for n in ("ns_a", "ns_b", "ns_c") for bad in (math.nan, math.inf)),
        *(("C4", {"eps": bad}) for bad in (0.0, *NO_SIZES)),
        *(("C5", {"ns_steps": bad}) for bad in (-1, 100, 2.5)),
        *(("C6", {"nesterov": bad}) for bad in NO_FLAGS),
        *(("C7", {"adjust_lr_fn": bad}) for bad in ("adamw", "")),
        *(("C9", {"ns_dtype": bad}) for bad in ("fp16", "bfloat16", "")),
    ),
)  # fmt: skip
