"""Add a residual, and divide the sum by its root mean square; return both.

    summed[i, k] = x[i, k] + residual[i, k]
    z            = rms_norm(summed, gamma)

There are two results, z and summed, each of the shape of x. What is normalized is the sum before it
is rounded to the format of the tensors; `summed` is that sum, rounded once.

C1  x has at least one axis.
C2  gamma has the shape of the last axes of x, one or more.
C3  eps is finite and > 0.
C4  residual has the shape of x.

A session may leave out gamma, as of rms_norm; eps is 2^-23 in every dtype, too. The sum is the
residual of the next layer; its cotangent joins the one that comes through z. Both x and residual
receive the same gradient.

Reference: Zhang and Sennrich, 2019, equation 4, and the residual blocks of He et al., 2016.

>>> from spec.tensor import tensor
>>> op(tensor([[0.0, -7.0]]), tensor([[1.0, 0.0]]), tensor([2.0, 0.5]), eps=39.0)  # z, summed
Tensor([0.25, -0.4375, 1.0, -7.0])
"""

from __future__ import annotations

import math
from typing import Any

from spec.axes import check_last_axes, check_residual
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.rms_norm import op as rms_norm
from spec.refusals import Miss
from spec.several import several


def types(x: Type, residual: Type, gamma: Type, *, eps: float = 2**-23) -> dict[str, Type]:
    """Accept last axes (C1), their gamma (C2), a positive eps (C3) and a residual (C4)."""
    check_last_axes("add_rms_norm", x, gamma=gamma)
    if not 0 < eps < math.inf:
        raise refuse("add_rms_norm C3", "eps is finite and > 0", eps)
    check_residual("add_rms_norm", x, residual)
    return {"z": x, "summed": x}


def program(ops: Any, x: Any, residual: Any, gamma: Any, *, eps: float = 2**-23) -> tuple[Any, Any]:
    """Add, and normalize the sum."""
    summed = ops.add(x, residual)
    return ops.rms_norm(summed, gamma, eps=eps), summed


EDGES = (
    Edge(
        ([[-0.0, 3.0]], [[-0.0, -3.0]], [3.0, 5.0]),
        ([-0.0, 0.0, -0.0, 0.0],),
        "IEEE",
        "zeros stay, with the signs of their sums",
    ),
    Edge(
        ([[[1.0, 1.0], [5.0, 0.0]]], [[[0.0, 2.0], [0.0, 1.0]]], [[2.0, 1.0], [1.0, 4.0]]),
        ([0.5, 0.75, 1.25, 1.0, 1.0, 3.0, 5.0, 1.0],),
        "IEEE",
        "two axes are one row",
        attributes={"eps": 7.0},
    ),
    Edge(
        ([[math.inf, 1.0], [math.inf, 1.0]], [[0.0, 1.0], [-math.inf, 1.0]], [1.0, 1.0]),
        ([math.nan, 0.0, math.nan, math.nan, math.inf, 2.0, math.nan, 2.0],),
        "IEEE",
        "infinity over infinity, and a sum that is NaN propagates along its row",
    ),
    Edge(
        ([[1.0, 0.0]], [[-1.0, 0.0]], [2.0, 4.0]),
        (([[3.5, 10.0]], [[3.5, 10.0]], [0.0, 0.0]),),
        "IEEE",
        "at zero the root is flat, and the cotangents of both results add up",
        cotangent=[3.0, 5.0, 0.5, 0.0],
        attributes={"eps": 4.0},
    ),
    Edge(([], [], []), ([],), "IEEE", "nothing stays nothing"),
)

REFUSED = (
    Miss("C1", (1.0, 1.0, [1.0])),
    Miss("C2", ([[1.0, 2.0]], [[1.0, 2.0]], [1.0])),
    Miss("C2", ([[1.0, 2.0]], [[1.0, 2.0]], 1.0)),
    Miss("C2", ([1.0, 2.0], [1.0, 2.0], [[1.0, 2.0]])),
    Miss("C2", ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0]])),
    *(
        Miss("C3", ([1.0, 2.0], [1.0, 2.0], [1.0, 2.0]), {"eps": eps})
        for eps in (0.0, -1e-5, math.inf, math.nan)
    ),
    *(
        Miss("C4", ([[1.0, 2.0]], residual, [1.0, 2.0]))
        for residual in ([1.0, 2.0], [[1.0], [2.0]], [[1.0, 2.0], [1.0, 2.0]], 1.0)
    ),
)

ELSEWHERE = Elsewhere(
    None,
    None,
    formula="torch.cat([torch.nn.functional.rms_norm(x + residual, gamma.shape, gamma, "
    "eps=eps).flatten(), (x + residual).flatten()])",
)

op = several(
    "add_rms_norm",
    types,
    program,
    (add, rms_norm),
    edges=EDGES,
    refused=REFUSED,
    tried={"eps": (2**-23, 1e-3, 1e-8, 1.0)},
    elsewhere=ELSEWHERE,
)
value = op.value
