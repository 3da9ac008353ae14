"""Adam with decoupled weight decay.

    p = p - lr * weight_decay * p
    m = m + (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g^2
    p = p - (lr / (1 - beta1^t)) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)

t counts this parameter's own steps from 1; the decay comes first, and eps stands outside the root.

C1  lr and weight_decay are finite and >= 0.
C2  beta1 and beta2 lie in [0, 1).
C3  eps is finite and > 0.

Reference: Loshchilov and Hutter, ICLR 2019, algorithm 2; PyTorch's torch.optim.AdamW.

>>> from spec.tensor import tensor
>>> p, state = update(tensor([1.0]), tensor([4.0]), init(tensor([1.0])), AdamW(lr=0.5, eps=1e-300))
>>> p, state.step
(Tensor([0.495]), 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, refuse, zeros_like
from spec.scalar import divide, lift, sqrt, square
from spec.tensor import zip_map


@dataclass(frozen=True)
class AdamW:
    """The hyper-parameters; every float is taken as the exact number that it is."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 1e-2

    def __post_init__(self) -> None:
        """Refuse what breaks C1, C2 or C3."""
        for name in ("lr", "weight_decay"):
            number = getattr(self, name)
            if not 0 <= number < math.inf:
                raise refuse("adamw C1", f"{name} is finite and >= 0", number)
        for name in ("beta1", "beta2"):
            number = getattr(self, name)
            if not 0 <= number < 1:
                raise refuse("adamw C2", f"{name} lies in [0, 1)", number)
        if not 0 < self.eps < math.inf:
            raise refuse("adamw C3", "eps is finite and > 0", self.eps)


@dataclass(frozen=True)
class State:
    """What is remembered between steps: two moments of the parameter's shape, and the count."""

    exp_avg: AnyTensor
    exp_avg_sq: AnyTensor
    step: int = 0


def init(parameter: AnyTensor) -> State:
    """Return the state before the first step."""
    return State(zeros_like(parameter), zeros_like(parameter))


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: AdamW
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors share one shape."""
    step = state.step + 1
    beta1, beta2 = Fraction(hyper.beta1), Fraction(hyper.beta2)
    decay = 1 - Fraction(hyper.lr) * Fraction(hyper.weight_decay)
    rate = Fraction(hyper.lr) / (1 - _power(beta1, step))
    correction = 1 - _power(beta2, step)

    def first(m: Any, g: Any) -> Any:
        return m + lift(g, 1 - beta1) * (g - m)

    def second(v: Any, g: Any) -> Any:
        return lift(v, beta2) * v + lift(g, 1 - beta2) * square(g)

    def moved(p: Any, m: Any, v: Any) -> Any:
        root = divide(sqrt(v), sqrt(lift(p, correction))) + lift(p, Fraction(hyper.eps))
        return lift(p, decay) * p - lift(p, rate) * divide(m, root)

    exp_avg = zip_map(first, state.exp_avg, gradient)
    exp_avg_sq = zip_map(second, state.exp_avg_sq, gradient)
    return zip_map(moved, parameter, exp_avg, exp_avg_sq), State(exp_avg, exp_avg_sq, step)


def _power(base: Fraction, exponent: int) -> Fraction:
    """Raise a number in [0, 1) to a power, exactly while that takes at most 1200 binary places.

    A million steps would have millions of digits; 1 minus the power rounds the same without them.
    """
    places = 2**1200
    result = Fraction(1)
    for bit in bin(exponent)[2:]:
        result = result * result * (base if bit == "1" else 1)
        if result.denominator > places:
            result = Fraction(round(result * places), places)
    return result
