"""Normalize the last axes to mean 0 and variance 1, then scale and shift them.

    mu[i]   = sum_k x[i, k] / n
    var[i]  = sum_k (x[i, k] - mu[i])^2 / n
    z[i, k] = gamma[k] * (x[i, k] - mu[i]) / sqrt(var[i] + eps) + beta[k]

C1  x has at least one axis.
C2  gamma and beta have the shape of the last axes of x, one or more; k runs over their n entries.
C3  eps is finite and > 0.

The shape of gamma and beta says which axes are normalized, as `normalized_shape` does in PyTorch.
The page always has both. A session without them takes that shape, and fills in ones and zeros,
which change no number: `layer_norm(x, normalized_shape=(n,))`.

The variance is the population variance, formed from the centred entries; eps is inside the root.
Of one entry the result is beta, and dx and dgamma are exactly 0.

Reference: Ba, Kiros and Hinton, 2016, section 3; PyTorch's layer_norm.

>>> from spec.tensor import tensor
>>> op(tensor([[2.0], [7.0]]), tensor([3.0]), tensor([0.5]))
Tensor([[0.5], [0.5]])
"""

from __future__ import annotations

import math
from typing import Any

from spec.axes import check_last_axes
from spec.composite import composite
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.broadcast_to import op as broadcast_to
from spec.ops.div import op as div
from spec.ops.mean import op as mean
from spec.ops.mul import op as mul
from spec.ops.sqrt import op as sqrt
from spec.ops.square import op as square
from spec.ops.sub import op as sub
from spec.refusals import Miss
from spec.shape import size


def type_rule(x: Type, gamma: Type, beta: Type, *, eps: float = 1e-5) -> Type:
    """Accept some last axes (C1), their gamma and beta (C2) and a positive eps (C3)."""
    check_last_axes("layer_norm", x, gamma=gamma, beta=beta)
    if not 0 < eps < math.inf:
        raise refuse("layer_norm C3", "eps is finite and > 0", eps)
    return x


def program(ops: Any, x: Any, gamma: Any, beta: Any, *, eps: float = 1e-5) -> Any:
    """Centre, divide by the root of the variance, scale and shift."""
    if size(x.shape) == 0:
        return x
    axes = tuple(range(-len(gamma.shape), 0))
    middle = ops.mean(x, axes=axes, keepdims=True)
    centred = ops.sub(x, ops.broadcast_to(middle, shape=x.shape))
    variance = ops.mean(ops.square(centred), axes=axes, keepdims=True)
    deviation = ops.sqrt(ops.add(variance, ops.constant(eps, variance.shape, like=x)))
    normal = ops.div(centred, ops.broadcast_to(deviation, shape=x.shape))
    scaled = ops.mul(normal, ops.broadcast_to(gamma, shape=x.shape))
    return ops.add(scaled, ops.broadcast_to(beta, shape=x.shape))


EDGES = (
    Edge(([[4.0]], [3.0], [0.5]), ([[0.5]],), "IEEE", "one entry gives beta"),
    Edge(
        ([[4.0]], [3.0], [0.5]),
        (([[0.0]], [0.0], [2.0]),),
        "IEEE",
        "of one entry, dx and dgamma are exactly 0",
        cotangent=[[2.0]],
    ),
    Edge(([[1e4] * 64], [2.0] * 64, [0.25] * 64), ([[0.25] * 64],), "IEEE", "a constant slice"),
    Edge(
        ([[[101.0], [99.0]]], [[2.0], [4.0]], [[0.5], [0.0]]),
        ([[[1.5], [-2.0]]],),
        "IEEE",
        "two axes are one row, centred first",
        attributes={"eps": 3.0},
    ),
    Edge(([], [], []), ([],), "IEEE", "nothing stays nothing"),
)

REFUSED = (
    Miss("C1", (1.0, [1.0], [1.0])),
    Miss("C2", ([[1.0, 2.0]], [1.0], [1.0, 2.0])),
    Miss("C2", ([[1.0, 2.0]], [1.0, 2.0], [1.0])),
    Miss("C2", ([[1.0, 2.0]], [1.0, 2.0], [[1.0, 2.0]])),
    Miss("C2", ([[1.0, 2.0]], 1.0, 1.0)),
    Miss("C2", ([1.0, 2.0], [[1.0, 2.0]], [[1.0, 2.0]])),
    *(
        Miss("C3", ([1.0, 2.0], [1.0, 2.0], [1.0, 2.0]), {"eps": eps})
        for eps in (0.0, -1e-5, math.inf, math.nan)
    ),
)

TRIED = {"eps": (1e-5, 1e-3, 1e-8, 1.0)}

ELSEWHERE = Elsewhere("torch.nn.functional.layer_norm(x, gamma.shape, gamma, beta, eps=eps)", None)

op = composite(
    "layer_norm",
    type_rule,
    program,
    (mean, div, broadcast_to, sub, square, add, sqrt, mul),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
value = op.value
