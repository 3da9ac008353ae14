"""Score logits against the probabilities of two outcomes: the binary cross-entropy.

    z = sum_i -(t[i] ln s(x[i]) + (1 - t[i]) ln(1 - s(x[i]))) / n,    s(a) = 1 / (1 + e^-a)

C1  all shapes are equal: a primitive never broadcasts.
C2  the reduction is "mean", "sum" or "none".
C3  for "mean", there is at least one entry.

One loss is computed as x (1 - t), or -x t below 0, plus ln(1 + e^-|x|), which overflows nowhere
and, for targets in [0, 1], cancels nowhere. The rates are s(x) - t, formed without loss near t = 1,
and -x. Targets beyond [0, 1] are taken as they are. The target is differentiable as well.

Reference: PyTorch's binary_cross_entropy_with_logits, without weights and its broadcasting.

>>> from spec.tensor import tensor
>>> op(tensor([1000.0, -1000.0]), tensor([0.0, 1.0]), reduction="none")
Tensor([1000.0, 1000.0])
>>> op.vjp((tensor([0.0, 0.0]), tensor([1.0, 0.25])), tensor(2.0))
(Tensor([-0.5, 0.25]), Tensor([-0.0, -0.0]))
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.losses import BAD_PAIRS, check_pair, reduced, scores
from spec.op import Edge, Elsewhere, Type
from spec.ops.mean import op as mean
from spec.ops.sigmoid import shrunk
from spec.ops.sum import op as sum_
from spec.scalar import divide, less, log1p, select


def type_rule(x: Type, target: Type, *, reduction: str = "mean") -> Type:
    """Accept two tensors of one shape (C1) and a reduction (C2) of something (C3)."""
    return check_pair("bce_with_logits", x, target, reduction)


def loss(x: Any, t: Any) -> Any:
    """Return the loss of one logit."""
    return select(less(x, 0), -x * t, x * (1 - t)) + log1p(shrunk(x))


def partials(x: Any, t: Any) -> tuple[Any, Any]:
    """The rates are s(x) - t and -x; above 0, s(x) is 1 - s(-x)."""
    e = shrunk(x)
    below = divide(e, 1 + e)
    return select(less(x, 0), below - t, (1 - t) - below), -x


def program(ops: Any, x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Score each logit, and reduce."""
    return reduced(ops, ops.scores(x, target), reduction)


_NONE = {"reduction": "none"}

EDGES = (
    Edge(([], []), (0.0,), "IEEE", "an empty sum is 0", attributes={"reduction": "sum"}),
    Edge(([1000.0, -1000.0], [1.0, 0.0]), (0.0,), "IEEE", "certain, and right"),
    Edge(
        ([math.inf, -math.inf], [0.0, 1.0]),
        ([math.inf, math.inf],),
        "IEEE",
        "certain, and wrong",
        attributes=_NONE,
    ),
    Edge(([math.inf], [1.0]), (math.nan,), "IEEE", "0 times infinity is NaN"),
    Edge(([math.nan], [0.0]), (math.nan,), "IEEE", "NaN propagates"),
    Edge(([1.0], [math.nan]), (math.nan,), "IEEE", "so does NaN as a target"),
    Edge(
        ([0.0, -math.inf, math.inf], [0.0, 1.0, 0.0]),
        (
            ([1.0, -2.0, 2.0], [0.0, math.inf, -math.inf]),
            ([1.0, -2.0, 2.0], [-0.0, math.inf, -math.inf]),
        ),
        "IEEE",
        "half way, and far out",
        cotangent=[2.0, 2.0, 2.0],
        attributes=_NONE,
    ),
)

ELSEWHERE = Elsewhere(
    "torch.nn.functional.binary_cross_entropy_with_logits(x, target, reduction=reduction)", None
)

op = composite(
    "bce_with_logits",
    type_rule,
    program,
    (scores(loss, partials), sum_, mean),
    edges=EDGES,
    refused=BAD_PAIRS,
    elsewhere=ELSEWHERE,
)
value = op.value
