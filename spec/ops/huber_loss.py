"""Score a prediction against a target: squares near 0, and lines beyond.

    z = sum_i h(x[i] - y[i]) / n        (reduction = "mean"; i runs over all n entries)
    h(d) = d^2 / 2 if |d| <= delta, else delta (|d| - delta / 2)

C1  all shapes are equal: a primitive never broadcasts.
C2  the reduction is "mean", "sum" or "none".
C3  for "mean", there is at least one entry.
C4  delta is finite and positive.

The rate is the difference, cut off at delta. The target y is differentiable as well.

Reference: Huber, 1964; PyTorch's huber_loss, without its broadcasting.

>>> from spec.tensor import tensor
>>> op(tensor([1.0, 5.0]), tensor([0.0, 2.0]), reduction="none")
Tensor([0.5, 2.5])
>>> op.vjp((tensor([0.5, 5.0]), tensor([0.0, 2.0])), tensor(2.0))
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
from spec.scalar import absolute, less, select, square


def type_rule(x: Type, y: Type, *, delta: float = 1.0, reduction: str = "mean") -> Type:
    """Accept two tensors of one shape (C1), a reduction (C2) of something (C3), a delta (C4)."""
    if not 0 < delta < math.inf:
        raise refuse("huber_loss C4", "delta is finite and positive", delta)
    return check_pair("huber_loss", x, y, reduction)


def loss(x: Any, y: Any, *, delta: float) -> Any:
    """Return the loss of one difference."""
    d, knee = x - y, Fraction(delta)
    far = absolute(d)
    return select(less(knee, far), knee * (far - knee / 2), square(d) * Fraction(1, 2))


def partials(x: Any, y: Any, *, delta: float) -> tuple[Any, Any]:
    """The rate by x is the difference, cut off at delta; that by y is its opposite."""
    d, knee = x - y, Fraction(delta)
    rate: Any = select(less(knee, d), knee, select(less(d, -knee), -knee, d))
    return rate, -rate


def program(ops: Any, x: Any, y: Any, *, delta: float = 1.0, reduction: str = "mean") -> Any:
    """Score each pair, and reduce."""
    return reduced(ops, ops.scores(x, y, delta=delta), reduction)


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
        (([-2.0, 4.0, 0.0], [2.0, -4.0, 0.0]), ([-2.0, 4.0, 0.0], [2.0, -4.0, -0.0])),
        "IEEE",
        "the rate is cut off, also far out",
        cotangent=[4.0, 8.0, 1.0],
        attributes={"delta": 0.5, **_NONE},
    ),
)

REFUSED = (
    *BAD_PAIRS,
    *(Miss("C4", ([1.0], [1.0]), {"delta": delta}) for delta in (0.0, -1.0, math.inf, math.nan)),
)

TRIED = {"delta": (1.0, 0.5, 3.0, 0.1)}

ELSEWHERE = Elsewhere(
    "torch.nn.functional.huber_loss(x, y, delta=delta, reduction=reduction)", None
)

op = composite(
    "huber_loss",
    type_rule,
    program,
    (scores(loss, partials, tried=TRIED), sum_, mean),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
value = op.value
