"""Divide each row by its root mean square, and return what it was multiplied by beside it.

    s[i] = 1 / sqrt((sum_j x[i, j]^2) / n + eps),  z[i, j] = x[i, j] * s[i]

Rows lie along the last axis, n entries each; there are two results, z and the scale s.

C1  x has a last axis, and entries along it.
C2  eps is finite and > 0.

Reference: Zhang and Sennrich, 2019, whose scale nobody returned; this page exists in a test.

>>> from spec.tensor import tensor
>>> op(tensor([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), eps=1.0)  # both rows of z, then both scales
Tensor([1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0])
"""

from __future__ import annotations

import math
from typing import Any

from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.broadcast_to import op as broadcast_to
from spec.ops.mean import op as mean
from spec.ops.mul import op as mul
from spec.ops.reciprocal import op as reciprocal
from spec.ops.reshape import op as reshape
from spec.ops.sqrt import op as sqrt
from spec.ops.square import op as square
from spec.refusals import Miss
from spec.several import several


def types(x: Type, *, eps: float = 1e-6) -> dict[str, Type]:
    """Accept rows of some entries (C1) and a positive eps (C2)."""
    if len(x.shape) < 1 or x.shape[-1] == 0:
        raise refuse("rms_rows C1", "x has a last axis, and entries along it", x)
    if not 0 < eps < math.inf:
        raise refuse("rms_rows C2", "eps is finite and > 0", eps)
    return {"z": x, "scale": Type(x.shape[:-1])}


def program(ops: Any, x: Any, *, eps: float = 1e-6) -> tuple[Any, Any]:
    """Average the squares, and multiply by one over the root."""
    squares = ops.mean(ops.square(x), axes=(-1,), keepdims=True)
    eps_in_each = ops.constant(eps, squares.shape, like=x)
    scale = ops.reciprocal(ops.sqrt(ops.add(squares, eps_in_each)))
    z = ops.mul(x, ops.broadcast_to(scale, shape=x.shape))
    return z, ops.reshape(scale, shape=x.shape[:-1])


EDGES = (
    Edge(([[0.0, -0.0]],), ([0.0, -0.0, 0.5],), "IEEE", "zeros keep signs", None, {"eps": 4.0}),
    Edge(([math.inf, 1.0],), ([math.nan, 0.0, 0.0],), "IEEE", "an infinity has no direction"),
    Edge(([math.nan, 1.0],), ([math.nan, math.nan, math.nan],), "IEEE", "NaN propagates"),
    Edge(
        ([[0.0, 0.0]],),
        (([[1.0, 0.0]],),),
        "IEEE",
        "at zero the scale is flat",
        cotangent=[2.0, 0.0, 5.0],
        attributes={"eps": 4.0},
    ),
)

REFUSED = (
    Miss("C1", (1.0,)),
    Miss("C1", ([],)),
    Miss("C1", ([[], []],)),
    *(Miss("C2", ([1.0, 2.0],), {"eps": eps}) for eps in (0.0, -1e-6, math.inf, math.nan)),
)

ELSEWHERE = Elsewhere(
    None,
    None,
    formula="torch.cat([(x * (s := 1 / torch.sqrt((x * x).mean(-1, keepdim=True) + eps))).flatten()"
    ", s.flatten()])",
)

op = several(
    "rms_rows",
    types,
    program,
    (square, mean, add, sqrt, reciprocal, broadcast_to, mul, reshape),
    edges=EDGES,
    refused=REFUSED,
    tried={"eps": (1e-6, 1e-3, 1.0)},
    elsewhere=ELSEWHERE,
)
value = op.value
