"""Adam, whose weight decay joins the gradient.

    g = -g                      if maximize
    g = g + weight_decay * p
    m = m + (1 - beta1) * (g - m)
    v = beta2 * v + (1 - beta2) * g^2
    w = max(w, v)               if amsgrad, else w = v
    p = p - (lr / (1 - beta1^t)) * m / (sqrt(w) / sqrt(1 - beta2^t) + eps)

t counts this parameter's own steps from 1, and eps stands outside the root.
Both moments take in the decay, which the root then divides away again; adamw keeps it apart.

C1  lr and weight_decay are finite and >= 0.
C2  beta1 and beta2 lie in [0, 1).
C3  eps is finite and > 0.
C4  amsgrad and maximize are True or False.

Reference: Kingma and Ba, ICLR 2015, algorithm 1; Reddi, Kale and Kumar, ICLR 2018 (AMSGrad);
PyTorch's torch.optim.Adam.

>>> from spec.tensor import tensor
>>> decayed = Adam(lr=0.5, beta1=0.5, eps=1e-300, weight_decay=2.0)
>>> p, state = update(tensor([1.0]), tensor([2.0]), init(tensor([1.0])), decayed)
>>> p, state.exp_avg, state.step
(Tensor([0.5]), Tensor([2.0]), 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spec.op import AnyTensor, zeros_like
from spec.optim._moments import EXTRAS, REFUSED, TRIED, Hyper, Moments, averaged, descent, divisor
from spec.optim._optimizer import Optimizer
from spec.optim._steered import steered
from spec.tensor import zip_map


@dataclass(frozen=True)
class Adam(Hyper):
    """The hyper-parameters; every float is taken as the exact number that it is."""


class State(Moments):
    """What is remembered between steps: two moments, the count, and the largest second one."""


def init(parameter: AnyTensor) -> State:
    """Return the state before the first step."""
    return State(zeros_like(parameter), zeros_like(parameter))


def update(
    parameter: AnyTensor, gradient: AnyTensor, state: State, hyper: Adam
) -> tuple[AnyTensor, State]:
    """Return the parameter and the state after one step; all tensors share one shape."""
    gradient = steered(parameter, gradient, hyper.weight_decay, hyper.maximize)
    after = averaged(state, gradient, hyper)
    fall = descent(hyper, after.step)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return p - fall(m, v)

    return zip_map(moved, parameter, after.exp_avg, divisor(after, hyper)), after


optimizer = Optimizer(
    "adam",
    Adam,
    State,
    init,
    update,
    squares=("exp_avg_sq", "max_exp_avg_sq"),
    torch="Adam",
    tried=TRIED,
    alone=("lr", "weight_decay", "beta1", "eps"),
    refused=REFUSED,
    extras=EXTRAS,
)
