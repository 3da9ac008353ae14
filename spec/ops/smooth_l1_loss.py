"""Score a prediction against a target: absolute differences, rounded off near 0.

    z = sum_i s(x[i] - y[i]) / n        (reduction = "mean"; i runs over all n entries)
    s(d) = d^2 / (2 beta) if |d| < beta, else |d| - beta / 2

C1  all shapes are equal: a primitive never broadcasts.
C2  the reduction is "mean", "sum" or "none".
C3  for "mean", there is at least one entry.
C4  beta is finite and not negative; with 0 nothing is rounded off.

The rate is d / beta, cut off at 1; with beta = 0 it is that of `mae_loss`.
The target y is differentiable as well.

Reference: Girshick, ICCV 2015; PyTorch's smooth_l1_loss, without its broadcasting.

>>> from spec.tensor import tensor
>>> op(tensor([1.0, 5.0]), tensor([0.0, 2.0]), beta=2.0, reduction="none")
Tensor([0.25, 2.0])
>>> op.vjp((tensor([1.0, 5.0]), tensor([0.0, 2.0])), tensor(2.0), beta=2.0)
(Tensor([0.5, 1.0]), Tensor([-0.5, -1.0]))
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from spec.composite import composite
from spec.losses import BAD_PAIRS, check_pair, reduced, scores
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.mean import op as mean
from spec.ops.sum import op as sum_
from spec.refusals import Miss
from spec.scalar import absolute, divide, less, select, square


def type_rule(x: Type, y: Type, *, beta: float = 1.0, reduction: str = "mean") -> Type:
    """Accept two tensors of one shape (C1), a reduction (C2) of something (C3), a beta (C4)."""
    if not 0 <= beta < math.inf:
        raise refuse("smooth_l1_loss C4", "beta is finite and not negative", beta)
    return check_pair("smooth_l1_loss", x, y, reduction)


def loss(x: Any, y: Any, *, beta: float) -> Any:
    """Return the loss of one difference."""
    d, knee = x - y, Fraction(beta)
    far = absolute(d)
    if knee == 0:
        return far
    return select(less(far, knee), divide(square(d) * Fraction(1, 2), knee), far - knee / 2)


def partials(x: Any, y: Any, *, beta: float) -> tuple[Any, Any]:
    """The rate by x is d / beta, cut off at 1; that by y is its opposite."""
    d, knee = x - y, Fraction(beta)
    inner: Any = divide(d, knee) if knee else 0
    rate: Any = select(less(knee, d), 1, select(less(d, -knee), -1, inner))
    return rate, -rate


def program(ops: Any, x: Any, y: Any, *, beta: float = 1.0, reduction: str = "mean") -> Any:
    """Score each pair, and reduce."""
    return reduced(ops, ops.scores(x, y, beta=beta), reduction)


_NONE = {"reduction": "none"}

EDGES = (
    Edge(([], []), (0.0,), "IEEE", "an empty sum is 0", attributes={"reduction": "sum"}),
    Edge(([2.0, -2.0], [1.0, 1.0]), ([0.5, 2.5],), "IEEE", "the knee, and beyond", None, _NONE),
    Edge(([math.inf], [1.0]), (math.inf,), "IEEE", "an infinite difference"),
    Edge(([math.inf], [math.inf]), (math.nan,), "IEEE", "infinities have no difference"),
    Edge(([math.nan], [1.0]), (math.nan,), "IEEE", "NaN propagates"),
    Edge(([math.nan], [1.0]), (([math.nan], [math.nan]),), "IEEE", "so it does back", 1.0),
    Edge(
        ([-math.inf, 3.0, 1.0], [1.0, 1.0, 1.0]),
        (([-4.0, 8.0, 0.0], [4.0, -8.0, 0.0]), ([-4.0, 8.0, 0.0], [4.0, -8.0, -0.0])),
        "IEEE",
        "the rate is cut off, also far out",
        cotangent=[4.0, 8.0, 1.0],
        attributes={"beta": 0.5, **_NONE},
    ),
    Edge(
        ([1.0, 4.0], [1.0, 2.0]),
        (([0.0, 1.0], [0.0, -1.0]), ([0.0, 1.0], [-0.0, -1.0])),
        "CHOICE",
        "with nothing rounded off, no difference, nothing to learn",
        cotangent=2.0,
        attributes={"beta": 0.0},
    ),
)

REFUSED = (
    *BAD_PAIRS,
    *(Miss("C4", ([1.0], [1.0]), {"beta": beta}) for beta in (-1.0, math.inf, math.nan)),
)

TRIED = {"beta": (1.0, 0.5, 0.0, 3.0, 0.1)}

ELSEWHERE = Elsewhere(
    "torch.nn.functional.smooth_l1_loss(x, y, beta=beta, reduction=reduction)", None
)

op = composite(
    "smooth_l1_loss",
    type_rule,
    program,
    (scores(loss, partials, tried=TRIED), sum_, mean),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
value = op.value
