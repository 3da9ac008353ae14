"""Adam with decoupled weight decay.

    g = -g                      if maximize
    p = p - lr * weight_decay * p
    m = m + (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g^2
    w = max(w, v)               if amsgrad, else w = v
    p = p - (lr / (1 - beta1^t)) * m / (sqrt(w) / sqrt(1 - beta2^t) + eps)

t counts this parameter's own steps from 1; the decay comes first, and eps stands outside the root.

C1  lr and weight_decay are finite and >= 0.
C2  beta1 and beta2 lie in [0, 1).
C3  eps is finite and > 0.
C4  amsgrad and maximize are True or False.

Reference: Loshchilov and Hutter, ICLR 2019, algorithm 2; Reddi, Kale and Kumar, ICLR 2018
(AMSGrad); PyTorch's torch.optim.AdamW.

>>> from spec.tensor import tensor
>>> p, state = update(tensor([1.0]), tensor([4.0]), init(tensor([1.0])), AdamW(lr=0.5, eps=1e-300))
>>> p, state.step
(Tensor([0.495]), 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spec.op import AnyTensor, zeros_like
from spec.optim._moments import EXTRAS, REFUSED, TRIED, Hyper, Moments, averaged, descent, divisor
from spec.optim._optimizer import Optimizer
from spec.optim._steered import steered
from spec.scalar import lift
from spec.tensor import zip_map


@dataclass(frozen=True)
class AdamW(Hyper):
    """The hyper-parameters; every float is taken as the exact number that it is."""

    weight_decay: float = 1e-2


class State(Moments):
    """What is remembered between steps: two moments, the count, and the largest second one."""


def init(parameter: AnyTensor) -> State:
    """Return the state before the first step."""
    return State(zeros_like(parameter), zeros_like(parameter))


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: AdamW
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors share one shape."""
    kept = 1 - Fraction(hyper.lr) * Fraction(hyper.weight_decay)
    gradient = steered(parameter, gradient, 0.0, hyper.maximize)
    after = averaged(state, gradient, hyper)
    fall = descent(hyper, after.step)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return lift(p, kept) * p - fall(m, v)

    return zip_map(moved, parameter, after.exp_avg, divisor(after, hyper)), after


optimizer = Optimizer(
    "adamw",
    AdamW,
    State,
    init,
    update,
    squares=("exp_avg_sq", "max_exp_avg_sq"),
    decoupled=True,
    order=("lr", "weight_decay", "beta1", "beta2", "eps", "amsgrad", "maximize"),
    torch="AdamW",
    tried=TRIED | {"weight_decay": (1e-2, 0.0, 0.1, 1.0)},
    alone=("lr", "weight_decay", "beta2", "eps"),
    refused=REFUSED,
    extras=EXTRAS,
)
