"""Score pairs by their distance where they are alike, else by what it lacks to a margin.

    z = sum_i l[i] / n        (reduction = "mean"; i runs over all n entries)
    l[i] = x[i] if y[i], else max(0, margin - x[i])

C1  all shapes are equal: a primitive never broadcasts.
C2  the reduction is "mean", "sum" or "none".
C3  for "mean", there is at least one entry.
C4  y is boolean: True where PyTorch has 1, the pair is alike, and False where it has -1.
C5  the margin is finite.

So no y is neither, which PyTorch adds both losses for (CHOICE); it is not differentiable.
Where x is the margin, the rate is -1, as PyTorch's; for a NaN that is not alike it is 0.

Reference: PyTorch's hinge_embedding_loss, without its broadcasting.

>>> from spec.tensor import tensor
>>> x, y = tensor([0.25, 0.25, 3.0]), tensor([True, False, False])
>>> op(x, y, reduction="none")
Tensor([0.25, 0.75, 0.0])
>>> op.vjp((x, y), tensor(3.0))
(Tensor([1.0, -1.0, 0.0]), None)
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.losses import check_pair, reduced
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.clamp import op as clamp
from spec.ops.mean import op as mean
from spec.ops.sub import op as sub
from spec.ops.sum import op as sum_
from spec.ops.where import op as where
from spec.refusals import Miss, need_finite


def type_rule(x: Type, y: Type, *, margin: float = 1.0, reduction: str = "mean") -> Type:
    """Accept what losses of pairs do (C1 to C3), of which y is a mask (C4), and a margin (C5)."""
    need_finite("hinge_embedding_loss C5", margin=margin)
    result = check_pair("hinge_embedding_loss", x, y, reduction)
    if not y.mask:
        raise refuse("hinge_embedding_loss C4", "y is boolean: its entries are truths", y)
    return result


def program(ops: Any, x: Any, y: Any, *, margin: float = 1.0, reduction: str = "mean") -> Any:
    """Take the distance or what the margin lacks, and reduce."""
    lacking = ops.sub(ops.constant(margin, x.shape, like=x), x)
    return reduced(ops, ops.where(y, x, ops.clamp(lacking, lo=0.0, hi=math.inf)), reduction)


_NONE, _SUM = {"reduction": "none"}, {"reduction": "sum"}
_BOTH = [True, False]

EDGES = (
    Edge(([], []), (0.0,), "IEEE", "an empty sum is 0", attributes=_SUM),
    Edge(([-2.0, -2.0], _BOTH), ([-2.0, 3.0],), "IEEE", "no distance", attributes=_NONE),
    Edge(([math.inf] * 2, _BOTH), ([math.inf, 0.0],), "IEEE", "far apart", attributes=_NONE),
    Edge(([math.nan] * 2, _BOTH), ([math.nan] * 2,), "IEEE", "NaN propagates", attributes=_NONE),
    Edge(
        ([1.0, 1.0, 2.0, math.nan], [True, False, False, False]),
        (([2.0, -3.0, 0.0, 0.0], None), ([2.0, -3.0, -0.0, -0.0], None)),
        "CHOICE",
        "at the margin there is something to learn, beyond it nothing, nor from NaN",
        cotangent=[2.0, 3.0, 4.0, 5.0],
        attributes=_NONE,
    ),
)

_ROW = [1.0, 2.0]

REFUSED = (
    *(Miss("C1", (_ROW, y)) for y in ([True], True, [_BOTH])),
    *(Miss("C2", (_ROW, _BOTH), {"reduction": other}) for other in ("average", None)),
    Miss("C3", ([], [])),
    *(Miss("C4", (_ROW, y)) for y in ([1, -1], [1.0, -1.0])),
    *(Miss("C5", (_ROW, _BOTH), {"margin": margin}) for margin in (math.inf, math.nan)),
)

TRIED = {"margin": (1.0, 0.5, 3.0, 0.1)}

ELSEWHERE = Elsewhere(
    "torch.nn.functional.hinge_embedding_loss(x, torch.where(y, 1, -1), margin=margin, "
    "reduction=reduction)",
    None,
    reads={"y": "target == 1"},
)

op = composite(
    "hinge_embedding_loss",
    type_rule,
    program,
    (sub, clamp, where, sum_, mean),
    index_inputs=(1,),
    mask_inputs=(1,),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
value = op.value
