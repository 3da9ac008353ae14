"""Divide the last axes by their root mean square, then scale them.

    s[i]    = 1 / sqrt((sum_k x[i, k]^2) / n + eps)
    z[i, k] = gamma[k] * x[i, k] * s[i]

C1  x has at least one axis.
C2  gamma has the shape of the last axes of x, one or more; k runs over their n entries.
C3  eps is finite and > 0.

The shape of gamma says which axes are normalized, as `normalized_shape` does in PyTorch.
The page always has a gamma. A session without one takes that shape, and fills in ones, which change
no number: `rms_norm(x, normalized_shape=(n,))`.
eps is inside the root, and 2^-23 in every dtype: PyTorch takes 2^-52 in fp64.

Reference: Zhang and Sennrich, 2019, equation 4; PyTorch's rms_norm.

>>> from spec.tensor import tensor
>>> op(tensor([[1.0, -7.0], [0.0, 0.0]]), tensor([2.0, 0.5]), eps=39.0)
Tensor([[0.25, -0.4375], [0.0, 0.0]])
"""

from __future__ import annotations

import math
from typing import Any

from spec.axes import check_last_axes
from spec.composite import composite
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.broadcast_to import op as broadcast_to
from spec.ops.mean import op as mean
from spec.ops.mul import op as mul
from spec.ops.rsqrt import op as rsqrt
from spec.ops.square import op as square
from spec.refusals import Miss
from spec.shape import size


def type_rule(x: Type, gamma: Type, *, eps: float = 2**-23) -> Type:
    """Accept some last axes (C1), their gamma (C2) and a positive eps (C3)."""
    check_last_axes("rms_norm", x, gamma=gamma)
    if not 0 < eps < math.inf:
        raise refuse("rms_norm C3", "eps is finite and > 0", eps)
    return x


def program(ops: Any, x: Any, gamma: Any, *, eps: float = 2**-23) -> Any:
    """Multiply by one over the root of the mean square, and scale."""
    if size(x.shape) == 0:
        return x
    axes = tuple(range(-len(gamma.shape), 0))
    squares = ops.mean(ops.square(x), axes=axes, keepdims=True)
    over = ops.rsqrt(ops.add(squares, ops.constant(eps, squares.shape, like=x)))
    normal = ops.mul(x, ops.broadcast_to(over, shape=x.shape))
    return ops.mul(normal, ops.broadcast_to(gamma, shape=x.shape))


EDGES = (
    Edge(([[0.0, -0.0]], [3.0, 5.0]), ([[0.0, -0.0]],), "IEEE", "zeros stay, with their signs"),
    Edge(
        ([[[1.0, 3.0], [5.0, 1.0]]], [[2.0, 1.0], [1.0, 4.0]]),
        ([[[0.5, 0.75], [1.25, 1.0]]],),
        "IEEE",
        "two axes are one row",
        attributes={"eps": 7.0},
    ),
    Edge(([[math.inf, 1.0]], [1.0, 1.0]), ([[math.nan, 0.0]],), "IEEE", "infinity over infinity"),
    Edge(([[math.nan, 1.0]], [1.0, 1.0]), ([[math.nan] * 2],), "IEEE", "NaN propagates"),
    Edge(
        ([[0.0, 0.0]], [2.0, 4.0]),
        (([[3.0, 10.0]], [0.0, 0.0]),),
        "IEEE",
        "at zero the root is flat",
        cotangent=[[3.0, 5.0]],
        attributes={"eps": 4.0},
    ),
    Edge(([], []), ([],), "IEEE", "nothing stays nothing"),
)

REFUSED = (
    Miss("C1", (1.0, [1.0])),
    Miss("C2", ([[1.0, 2.0]], [1.0])),
    Miss("C2", ([[1.0, 2.0]], 1.0)),
    Miss("C2", ([1.0, 2.0], [[1.0, 2.0]])),
    Miss("C2", ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0]])),
    *(
        Miss("C3", ([1.0, 2.0], [1.0, 2.0]), {"eps": eps})
        for eps in (0.0, -1e-5, math.inf, math.nan)
    ),
)

TRIED = {"eps": (2**-23, 1e-3, 1e-8, 1.0)}

ELSEWHERE = Elsewhere(
    "torch.nn.functional.rms_norm(x, gamma.shape, gamma, eps=eps)",
    None,
    reads={"eps": "torch.finfo(input.dtype).eps if eps is None else eps"},
)

op = composite(
    "rms_norm",
    type_rule,
    program,
    (square, mean, add, rsqrt, broadcast_to, mul),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
value = op.value
