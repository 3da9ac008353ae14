"""Take the logarithm of the softmax along one axis.

    z[i, k] = x[i, k] - m[i] - ln sum_j e^(x[i, j] - m[i]),     m[i] = max_j x[i, j]

C1  the axis lies in [-rank, rank); the rank is at least 1.

The shift by the detached maximum changes no value, and is part of the definition because it is what
keeps every exponential in range.
An axis of extent 0 gives the empty tensor.

Reference: PyTorch's log_softmax.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, -1000.0]))
Tensor([0.0, -1000.0])
"""

from __future__ import annotations

import math
from typing import Any

from spec.axes import BAD_AXIS, check_axis
from spec.composite import composite
from spec.op import Edge, Elsewhere, Type
from spec.ops.broadcast_to import op as broadcast_to
from spec.ops.detach import op as detach
from spec.ops.exp import op as exp
from spec.ops.log import op as log
from spec.ops.max import op as max_
from spec.ops.sub import op as sub
from spec.ops.sum import op as sum_
from spec.shape import size


def type_rule(x: Type, *, axis: int = -1) -> Type:
    """Accept an axis of x (C1)."""
    check_axis("log_softmax C1", x, axis)
    return x


def shifted(ops: Any, x: Any, axis: int) -> Any:
    """Subtract the largest entry along the axis, detached."""
    largest = ops.detach(ops.max(x, axes=(axis,), keepdims=True))
    return ops.sub(x, ops.broadcast_to(largest, shape=x.shape))


def program(ops: Any, x: Any, *, axis: int = -1) -> Any:
    """Shift by the largest entry, then subtract the logarithm of the sum of exponentials."""
    if size(x.shape) == 0:
        return x
    below = shifted(ops, x, axis)
    total = ops.sum(ops.exp(below), axes=(axis,), keepdims=True)
    return ops.sub(below, ops.broadcast_to(ops.log(total), shape=x.shape))


EDGES = (
    Edge(([],), ([],), "IEEE", "softmax of nothing"),
    Edge(([5.0],), ([0.0],), "IEEE", "a single class has probability 1"),
    Edge(([0.0, -math.inf],), ([0.0, -math.inf],), "IEEE", "an impossible class"),
    Edge(([math.nan, 0.0],), ([math.nan, math.nan],), "IEEE", "NaN propagates"),
    Edge(([5.0],), (([0.0],),), "IEEE", "one class has nothing to learn", cotangent=[3.0]),
)

REFUSED = BAD_AXIS

ELSEWHERE = Elsewhere("torch.nn.functional.log_softmax(x, dim=axis)", "jax.nn.log_softmax")

op = composite(
    "log_softmax",
    type_rule,
    program,
    (max_, detach, broadcast_to, sub, exp, sum_, log),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
value = op.value
