"""Turn those scores that a mask lets pass into probabilities along one axis.

    z[i, k] = e^(x[i, k] - m[i]) / sum_j e^(x[i, j] - m[i]) if mask[i, k] else 0
    m[i] = max_j x[i, j]        (j runs over the positions at which the mask is true)

C1  all shapes are equal: a primitive never broadcasts.
C2  the mask is boolean: its entries are True or False.
C3  the axis lies in [-rank, rank); the rank is at least 1.

What is masked takes no part: whatever it holds, its probability is 0 and it receives exactly 0
(CHOICE: nothing that was left out speaks). So a row that is masked throughout is 0, with gradient
0, where PyTorch's softmax of minus infinities is NaN. A mask that is true everywhere gives softmax.
An axis of extent 0 gives the empty tensor.

Reference: PyTorch's scaled_dot_product_attention since 2.5, for what is masked throughout.

>>> from spec.tensor import tensor
>>> op(tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]]), tensor([[True, True, False], [False] * 3]))
Tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
"""

from __future__ import annotations

import math
from typing import Any

from spec.axes import check_axis
from spec.composite import composite
from spec.kinds import same_shape
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.broadcast_to import op as broadcast_to
from spec.ops.detach import op as detach
from spec.ops.div import op as div
from spec.ops.exp import op as exp
from spec.ops.max import op as max_
from spec.ops.min import op as min_
from spec.ops.sub import op as sub
from spec.ops.sum import op as sum_
from spec.ops.where import op as where
from spec.refusals import Miss
from spec.shape import size


def type_rule(x: Type, mask: Type, *, axis: int = -1) -> Type:
    """Accept two tensors of one shape (C1), of which one is a mask (C2), and an axis (C3)."""
    same_shape("masked_softmax", x, mask)
    if not mask.mask:
        raise refuse("masked_softmax C2", "the mask is boolean: its entries are truths", mask)
    check_axis("masked_softmax C3", x, axis)
    return x


def program(ops: Any, x: Any, mask: Any, *, axis: int = -1) -> Any:
    """Shift by the largest entry that passes, exponentiate, and divide by the sum of what passes.

    The others are filled by a number that is no larger than any that passes, and are 0 / 1.
    """
    if size(x.shape) == 0:
        return x

    def fold(take: Any, y: Any) -> Any:
        return ops.broadcast_to(take(y, axes=(axis,), keepdims=True), shape=x.shape)

    zero, one = (ops.constant(value, x.shape, like=x) for value in (0, 1))
    passed = ops.where(mask, x, zero)
    passed = ops.where(mask, passed, ops.detach(fold(ops.min, passed)))
    powers = ops.exp(ops.sub(passed, ops.detach(fold(ops.max, passed))))
    powers = ops.where(mask, powers, zero)
    return ops.div(powers, ops.where(mask, fold(ops.sum, powers), one))


_NAN, _INF = math.nan, math.inf

EDGES = (
    Edge(([], []), ([],), "IEEE", "softmax of nothing"),
    Edge(([5.0, 7.0], [True, False]), ([1.0, 0.0],), "IEEE", "one that passes has probability 1"),
    Edge(([5.0, 7.0], [False, False]), ([0.0, 0.0],), "CHOICE", "a row that is masked throughout"),
    Edge(
        ([-1000.0, _NAN, -1000.0, _INF], [True, False, True, False]),
        ([0.5, 0.0, 0.5, 0.0],),
        "CHOICE",
        "what is masked takes no part, whatever it holds",
    ),
    Edge(
        ([-_INF, -_INF, 0.0], [True, True, False]),
        ([_NAN, _NAN, 0.0],),
        "IEEE",
        "nothing that passes is possible",
    ),
    Edge(([_NAN, 0.0, 0.0], [True, True, False]), ([_NAN, _NAN, 0.0],), "IEEE", "NaN propagates"),
    Edge(
        ([[0.0, 0.0, _NAN], [_NAN, _INF, 0.0]], [[True, True, False], [False] * 3]),
        (([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]], None),),
        "CHOICE",
        "what is masked has nothing to learn, and says nothing back",
        cotangent=[[4.0, 0.0, _NAN], [_INF, _NAN, 1.0]],
    ),
)

_ROW, _PASSING = [1.0, 2.0], [True, False]

REFUSED = (
    *(Miss("C1", (_ROW, mask)) for mask in ([True], True, [_PASSING])),
    *(Miss("C2", (_ROW, mask)) for mask in ([1, 0], [1.0, 0.0], [True, 0])),
    *(Miss("C3", (_ROW, _PASSING), {"axis": axis}) for axis in (1, -2, True)),
    Miss("C3", (1.0, True)),
)

ELSEWHERE = Elsewhere(
    "torch.masked.softmax(x, axis, mask=mask)", "jax.nn.softmax", formula="torch.nan_to_num(called)"
)

op = composite(
    "masked_softmax", type_rule, program,
    (where, min_, max_, detach, broadcast_to, sub, exp, sum_, div),
    index_inputs=(1,), mask_inputs=(1,), edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE,
)  # fmt: skip
value = op.value
