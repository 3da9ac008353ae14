"""Score log-probabilities against probabilities: the Kullback-Leibler divergence.

    z = sum_i p[i] (ln p[i] - x[i]) / n        (reduction = "mean"; i runs over all n entries)
    p = e^target if log_target, else target

C1  all shapes are equal: a primitive never broadcasts.
C2  the reduction is "mean", "sum" or "none".
C3  for "mean", there is at least one entry.

The mean is over entries, not over rows: the divergence per row is the sum over the count of rows.
What has probability 0 costs nothing, also where x is infinite: 0 ln 0 is 0 (CHOICE, as SciPy's
rel_entr; PyTorch multiplies 0 by infinity). The rates are -p, and ln p - x + 1 or p times that. The
former has its pole at p = 0, so a zero cotangent is absorbing.

Reference: Kullback and Leibler, 1951.

>>> from spec.tensor import tensor
>>> op(tensor([-0.5, -2.0]), tensor([1.0, 0.0]), reduction="none")
Tensor([0.5, 0.0])
>>> op.vjp((tensor([-0.5, -2.0]), tensor([0.0, 0.0])), tensor(2.0), log_target=True)
(Tensor([-1.0, -1.0]), Tensor([1.5, 3.0]))
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.losses import BAD_PAIRS, check_pair, reduced, scores
from spec.op import Edge, Elsewhere, Type
from spec.ops.mean import op as mean
from spec.ops.sum import op as sum_
from spec.scalar import equal, exp, is_nan, log, select, zero_like


def type_rule(x: Type, target: Type, *, log_target: bool = False, reduction: str = "mean") -> Type:
    """Accept two tensors of one shape (C1) and a reduction (C2) of something (C3)."""
    return check_pair("kl_div", x, target, reduction)


def weighed(p: Any, information: Any, x: Any) -> Any:
    """Return p times the information, which is 0 where p is 0; the NaN of an x remains."""
    return select(equal(p, 0), select(is_nan(x), x, zero_like(p)), p * information)


def loss(x: Any, t: Any, *, log_target: bool) -> Any:
    """Return what one entry adds to the divergence."""
    return weighed(exp(t), t - x, x) if log_target else weighed(t, log(t) - x, x)


def partials(x: Any, t: Any, *, log_target: bool) -> tuple[Any, Any]:
    """The rates are -p, and ln p - x + 1, times p where the target is ln p."""
    if log_target:
        p = exp(t)
        return -p, weighed(p, t - x + 1, x)
    return -t, log(t) - x + 1


def program(
    ops: Any, x: Any, target: Any, *, log_target: bool = False, reduction: str = "mean"
) -> Any:
    """Score each entry, and reduce."""
    return reduced(ops, ops.scores(x, target, log_target=log_target), reduction)


_NONE = {"reduction": "none"}
_LOG = {"log_target": True, **_NONE}

EDGES = (
    Edge(([], []), (0.0,), "IEEE", "an empty sum is 0", attributes={"reduction": "sum"}),
    Edge(([0.0, -1.0], [1.0, 0.0]), (0.0,), "IEEE", "certain, and right"),
    Edge(([-math.inf], [1.0]), (math.inf,), "IEEE", "certain, and wrong"),
    Edge(
        ([-math.inf, math.inf], [0.0, -0.0]),
        ([0.0, 0.0],),
        "CHOICE",
        "what has probability 0 costs nothing, whatever was thought of it",
        attributes=_NONE,
    ),
    Edge(
        ([-math.inf, -1.0], [-math.inf, -math.inf]),
        ([0.0, 0.0],),
        "CHOICE",
        "a logarithm of minus infinity is that of 0",
        attributes=_LOG,
    ),
    Edge(([math.nan], [0.0]), (math.nan,), "IEEE", "NaN propagates"),
    Edge(([1.0], [math.nan]), (math.nan,), "IEEE", "so does NaN as a target"),
    Edge(([0.0], [-1.0]), (math.nan,), "IEEE", "there are no negative probabilities"),
    Edge(
        ([-1.0, -2.0, -2.0], [0.0, 1.0, 0.0]),
        (([-0.0, -2.0, 0.0], [-math.inf, 6.0, 0.0]), ([0.0, -2.0, 0.0], [-math.inf, 6.0, 0.0])),
        "CHOICE",
        "a zero cotangent is absorbing, also at the pole",
        cotangent=[2.0, 2.0, 0.0],
        attributes=_NONE,
    ),
    Edge(
        ([-math.inf, -2.0], [-math.inf, 0.0]),
        (([-0.0, -2.0], [0.0, 6.0]), ([0.0, -2.0], [0.0, 6.0])),
        "CHOICE",
        "what has probability 0 has nothing to learn",
        cotangent=[2.0, 2.0],
        attributes=_LOG,
    ),
)

TRIED = {"log_target": (False, True)}

ELSEWHERE = Elsewhere(
    "torch.nn.functional.kl_div(x, target, log_target=log_target, reduction=reduction)", None
)

op = composite(
    "kl_div", type_rule, program, (scores(loss, partials, absorbing=True, tried=TRIED), sum_, mean),
    edges=EDGES, refused=BAD_PAIRS, tried=TRIED, elsewhere=ELSEWHERE,
)  # fmt: skip
value = op.value
