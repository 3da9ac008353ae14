"""Score a prediction against a target: the mean of the absolute differences.

    z = sum_i |x[i] - y[i]| / n        (reduction = "mean"; i runs over all n entries)

C1  all shapes are equal: a primitive never broadcasts.
C2  the reduction is "mean", "sum" or "none".
C3  for "mean", there is at least one entry.

Where the two are equal the rate is 0, as at the kink of `abs`.
The target y is differentiable as well.

Reference: PyTorch's l1_loss, without its broadcasting.

>>> from spec.tensor import tensor
>>> op(tensor([1.0, 5.0]), tensor([2.0, 2.0]))
Tensor(2.0)
>>> op.vjp((tensor([1.0, 5.0]), tensor([2.0, 2.0])), tensor(1.0))
(Tensor([-0.5, 0.5]), Tensor([0.5, -0.5]))
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.losses import BAD_PAIRS, check_pair, reduced
from spec.op import Edge, Elsewhere, Type
from spec.ops.abs import op as abs_
from spec.ops.mean import op as mean
from spec.ops.sub import op as sub
from spec.ops.sum import op as sum_


def type_rule(x: Type, y: Type, *, reduction: str = "mean") -> Type:
    """Accept two tensors of one shape (C1) and a reduction (C2) of something (C3)."""
    return check_pair("mae_loss", x, y, reduction)


def program(ops: Any, x: Any, y: Any, *, reduction: str = "mean") -> Any:
    """Subtract, take absolute values, and reduce."""
    return reduced(ops, ops.abs(ops.sub(x, y)), reduction)


_SUM, _NONE = {"reduction": "sum"}, {"reduction": "none"}

EDGES = (
    Edge(([], []), (0.0,), "IEEE", "an empty sum is 0", attributes=_SUM),
    Edge(([], []), ([],), "IEEE", "an empty axis stays empty", attributes=_NONE),
    Edge(([1.0], [3.0]), (2.0,), "IEEE", "one entry is its own mean"),
    Edge(([-math.inf, 1.0], [1.0, 1.0]), (math.inf,), "IEEE", "an infinite difference"),
    Edge(([math.inf], [math.inf]), (math.nan,), "IEEE", "infinities have no difference"),
    Edge(([math.nan, 1.0], [1.0, 1.0]), (math.nan,), "IEEE", "NaN propagates"),
    Edge(
        ([1.0, 2.0], [1.0, -2.0]),
        (([0.0, 0.5], [0.0, -0.5]), ([0.0, 0.5], [-0.0, -0.5])),
        "CHOICE",
        "no difference, nothing to learn",
        cotangent=1.0,
    ),
    Edge(
        ([[1.0, 2.0]], [[3.0, 1.0]]),
        (([[-1.0, 10.0]], [[1.0, -10.0]]),),
        "IEEE",
        "a cotangent per entry",
        cotangent=[[1.0, 10.0]],
        attributes=_NONE,
    ),
)

ELSEWHERE = Elsewhere("torch.nn.functional.l1_loss(x, y, reduction=reduction)", None)

op = composite(
    "mae_loss",
    type_rule,
    program,
    (sub, abs_, sum_, mean),
    edges=EDGES,
    refused=BAD_PAIRS,
    elsewhere=ELSEWHERE,
)
value = op.value
