"""Score triplets of rows: how much farther than the positive the negative has yet to be.

    z = sum_i max(0, |a[i] - p[i]| - |a[i] - n[i]| + margin) / rows        (reduction = "mean")
    |d| is the norm of order p of d + eps, along the last axis

C1  all shapes are equal: a primitive never broadcasts.
C2  the reduction is "mean", "sum" or "none", over the rows; "mean" over at least one.
C3  the rank is at least 1.
C4  p is 1 or 2.
C5  the margin is finite and positive; eps is finite.

With swap, |p[i] - n[i]| stands for |a[i] - n[i]| where it is smaller. Where the loss is just 0 the
rate is 1, as PyTorch's; equal distances of the negative share the cotangent, as in `minimum`, and
a distance that is 0 has a rate of 0, as in `norm` (CHOICE).

Reference: Balntas, Riba, Ponsa and Mikolajczyk, BMVC 2016; PyTorch's triplet_margin_loss, without
its broadcasting and other orders.

>>> from spec.tensor import tensor
>>> rows = tensor([[0.0, 0.0]]), tensor([[3.0, 4.0]]), tensor([[0.0, 2.0]])
>>> op(*rows, eps=0.0), op(*rows, eps=0.0, p=1)
(Tensor(4.0), Tensor(6.0))
"""

# This file is longer than the guide because it writes six attributes down, three times.

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.kinds import same_shape
from spec.losses import REDUCTIONS, reduced
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.clamp import op as clamp
from spec.ops.mean import op as mean
from spec.ops.minimum import op as minimum
from spec.ops.norm import op as norm
from spec.ops.sub import op as sub
from spec.ops.sum import op as sum_
from spec.refusals import Miss
from spec.shape import size


def type_rule(
    anchor: Type,
    positive: Type,
    negative: Type,
    *,
    margin: float = 1.0,
    p: int = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Type:
    """Accept three tensors of rows (C1, C3), a reduction (C2), an order (C4), and numbers (C5)."""
    name = "triplet_margin_loss"
    same_shape(name, anchor, positive, negative)
    if not anchor.shape:
        raise refuse(f"{name} C3", "the rank is at least 1", anchor)
    if isinstance(p, bool) or p not in (1, 2):
        raise refuse(f"{name} C4", "p is 1 or 2", repr(p))
    if not (0 < margin < math.inf and abs(eps) < math.inf):
        rule = "the margin is finite and positive; eps is finite"
        raise refuse(f"{name} C5", rule, f"{margin} and {eps}")
    rows = anchor.shape[:-1]
    if reduction not in REDUCTIONS or (reduction == "mean" and size(rows) == 0):
        rule = f"the reduction is one of {REDUCTIONS}, 'mean' of at least one row"
        raise refuse(f"{name} C2", rule, f"{reduction!r} for rows of shape {rows}")
    return Type(rows if reduction == "none" else ())


def distances(
    ops: Any, anchor: Any, positive: Any, negative: Any, p: int, eps: float, swap: bool
) -> tuple[Any, Any]:
    """Return how far the anchor's rows lie from the positive's, and those from the negative's."""

    def distance(u: Any, v: Any) -> Any:
        apart = ops.add(ops.sub(u, v), ops.constant(eps, u.shape, like=u))
        return ops.norm(apart, ord=p, axes=(-1,))

    near, far = distance(anchor, positive), distance(anchor, negative)
    return near, ops.minimum(far, distance(positive, negative)) if swap else far


def program(
    ops: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    margin: float = 1.0,
    p: int = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """Take the distances, and what they lack to the margin, and reduce."""
    near, far = distances(ops, anchor, positive, negative, p, eps, swap)
    lacking = ops.add(ops.sub(near, far), ops.constant(margin, near.shape, like=near))
    return reduced(ops, ops.clamp(lacking, lo=0.0, hi=math.inf), reduction)


_NONE = {"reduction": "none", "eps": 0.0}
_ROW, _FAR = [[3.0, 4.0]], [[0.0, 2.0]]
_ZERO = [[0.0, 0.0]]

EDGES = (
    Edge(([], [], []), (1.0,), "IEEE", "rows without entries are not apart"),
    Edge((_ZERO, _ROW, _FAR), ([4.0],), "IEEE", "squares", attributes=_NONE),
    Edge((_ZERO, _FAR, _ROW), ([0.0],), "IEEE", "far enough", attributes=_NONE),
    Edge((_ZERO, [[math.nan, 1.0]], _ROW), ([math.nan],), "IEEE", "NaN", attributes=_NONE),
    Edge((_ZERO, [[-math.inf, 1.0]], _ROW), ([math.inf],), "IEEE", "infinity", attributes=_NONE),
    Edge(
        (_ZERO, _ZERO, _FAR),
        tuple(([[0.0, 3.0]], [[-0.0, end]], [[0.0, -3.0]]) for end in (-0.0, 0.0)),
        "CHOICE",
        "a distance of 0 has no rate; where the loss is just 0 there is something to learn",
        cotangent=[3.0],
        attributes={**_NONE, "margin": 2.0},
    ),
)

_ROWS = (_ZERO, _ROW, _FAR)

REFUSED = (
    Miss("C1", (_ZERO, _ROW, [0.0, 2.0])),
    Miss("C1", (_ZERO, _ROW, [[0.0]])),
    Miss("C1", (_ZERO[0], _ROW, _FAR)),
    *(Miss("C2", _ROWS, {"reduction": other}) for other in ("average", None)),
    Miss("C3", (1.0, 2.0, 3.0)),
    *(Miss("C4", _ROWS, {"p": p}) for p in (0, 3, math.inf, True)),
    *(Miss("C5", _ROWS, {"margin": margin}) for margin in (0.0, -1.0, math.inf, math.nan)),
    *(Miss("C5", _ROWS, {"eps": eps}) for eps in (math.inf, math.nan)),
)

TRIED = {"margin": (1.0, 0.5, 64.0), "p": (2, 1), "swap": (False, True), "eps": (1e-6, 0.0, 0.25)}

ELSEWHERE = Elsewhere(
    "torch.nn.functional.triplet_margin_loss(anchor, positive, negative, margin=margin, "
    "p=p, eps=eps, swap=swap, reduction=reduction)",
    None,
)

op = composite(
    "triplet_margin_loss",
    type_rule,
    program,
    (add, sub, norm, minimum, clamp, sum_, mean),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
value = op.value
