"""Turn scores into probabilities along one axis.

    z[i, k] = e^(x[i, k] - m[i]) / sum_j e^(x[i, j] - m[i]),    m[i] = max_j x[i, j]

C1  the axis lies in [-rank, rank); the rank is at least 1.

The shift by the detached maximum changes no value, and is part of the definition because it is what
keeps every exponential in range.
An axis of extent 0 gives the empty tensor.

Reference: PyTorch's softmax.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 0.0, -1000.0]))
Tensor([0.5, 0.5, 0.0])
"""

from __future__ import annotations

import math
from typing import Any

from spec.axes import BAD_AXIS, check_axis
from spec.composite import composite
from spec.op import Edge, Elsewhere, Type
from spec.ops.broadcast_to import op as broadcast_to
from spec.ops.detach import op as detach
from spec.ops.div import op as div
from spec.ops.exp import op as exp
from spec.ops.log_softmax import shifted
from spec.ops.max import op as max_
from spec.ops.sub import op as sub
from spec.ops.sum import op as sum_
from spec.shape import size


def type_rule(x: Type, *, axis: int = -1) -> Type:
    """Accept an axis of x (C1)."""
    check_axis("softmax C1", x, axis)
    return x


def program(ops: Any, x: Any, *, axis: int = -1) -> Any:
    """Shift by the largest entry, exponentiate, and divide by the sum."""
    if size(x.shape) == 0:
        return x
    powers = ops.exp(shifted(ops, x, axis))
    total = ops.sum(powers, axes=(axis,), keepdims=True)
    return ops.div(powers, ops.broadcast_to(total, shape=x.shape))


EDGES = (
    Edge(([],), ([],), "IEEE", "softmax of nothing"),
    Edge(([5.0],), ([1.0],), "IEEE", "a single class has probability 1"),
    Edge(([0.0, -math.inf],), ([1.0, 0.0],), "IEEE", "an impossible class"),
    Edge(([-math.inf, -math.inf],), ([math.nan, math.nan],), "IEEE", "nothing is possible"),
    Edge(([math.nan, 0.0],), ([math.nan, math.nan],), "IEEE", "NaN propagates"),
    Edge(([5.0],), (([0.0],),), "IEEE", "one class has nothing to learn", cotangent=[3.0]),
)

REFUSED = BAD_AXIS

ELSEWHERE = Elsewhere("torch.nn.functional.softmax(x, dim=axis)", "jax.nn.softmax")

op = composite(
    "softmax",
    type_rule,
    program,
    (max_, detach, broadcast_to, sub, exp, sum_, div),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
value = op.value
