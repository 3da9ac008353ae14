"""Add a residual, and normalize the last axes of the sum; return the result and the sum.

    summed[i, k] = x[i, k] + residual[i, k]
    z            = layer_norm(summed, gamma, beta)

There are two results, z and summed, each of the shape of x. What is normalized is the sum before it
is rounded to the format of the tensors; `summed` is that sum, rounded once.

C1  x has at least one axis.
C2  gamma and beta have the shape of the last axes of x, one or more.
C3  eps is finite and > 0.
C4  residual has the shape of x.

A session may leave out gamma and beta, as of layer_norm. The sum is the residual of the next layer;
its cotangent joins the one that comes through z. Both x and residual receive the same gradient.

Reference: Ba, Kiros and Hinton, 2016, section 3, and the residual blocks of He et al., 2016.

>>> from spec.tensor import tensor
>>> op(tensor([[2.0], [7.0]]), tensor([[1.0], [-3.0]]), tensor([3.0]), tensor([0.5]))  # z, summed
Tensor([0.5, 0.5, 3.0, 4.0])
"""

from __future__ import annotations

import math
from typing import Any

from spec.axes import check_last_axes, check_residual
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.layer_norm import op as layer_norm
from spec.refusals import Miss
from spec.several import several


def types(
    x: Type, residual: Type, gamma: Type, beta: Type, *, eps: float = 1e-5
) -> dict[str, Type]:
    """Accept last axes (C1), their gamma and beta (C2), a positive eps (C3) and a residual (C4)."""
    check_last_axes("add_layer_norm", x, gamma=gamma, beta=beta)
    if not 0 < eps < math.inf:
        raise refuse("add_layer_norm C3", "eps is finite and > 0", eps)
    check_residual("add_layer_norm", x, residual)
    return {"z": x, "summed": x}


def program(
    ops: Any, x: Any, residual: Any, gamma: Any, beta: Any, *, eps: float = 1e-5
) -> tuple[Any, Any]:
    """Add, and normalize the sum."""
    summed = ops.add(x, residual)
    return ops.layer_norm(summed, gamma, beta, eps=eps), summed


EDGES = (
    Edge(([[4.0]], [[3.0]], [2.0], [0.5]), ([0.5, 7.0],), "IEEE", "one entry gives beta"),
    Edge(
        ([[4.0]], [[3.0]], [3.0], [0.5]),
        (([[5.0]], [[5.0]], [0.0], [2.0]),),
        "IEEE",
        "of one entry, dx is the cotangent of the sum, and dgamma exactly 0",
        cotangent=[2.0, 5.0],
    ),
    Edge(
        ([[8192.0] * 4], [[1024.0] * 4], [2.0] * 4, [0.25] * 4),
        ([0.25] * 4 + [9216.0] * 4,),
        "IEEE",
        "a constant sum",
    ),
    Edge(
        ([[[100.0], [100.0]]], [[[1.0], [-1.0]]], [[2.0], [4.0]], [[0.5], [0.0]]),
        ([1.5, -2.0, 101.0, 99.0],),
        "IEEE",
        "two axes are one row, centred first",
        attributes={"eps": 3.0},
    ),
    Edge(
        ([[-0.0, 3.0]], [[-0.0, -3.0]], [1.0] * 2, [0.5] * 2),
        ([0.5, 0.5, -0.0, 0.0],),
        "IEEE",
        "a sum of zeros has their sign",
    ),
    Edge(([], [], [], []), ([],), "IEEE", "nothing stays nothing"),
)

REFUSED = (
    Miss("C1", (1.0, 1.0, [1.0], [1.0])),
    Miss("C2", ([[1.0, 2.0]], [[1.0, 2.0]], [1.0], [1.0, 2.0])),
    Miss("C2", ([[1.0, 2.0]], [[1.0, 2.0]], [1.0, 2.0], [1.0])),
    Miss("C2", ([[1.0, 2.0]], [[1.0, 2.0]], 1.0, 1.0)),
    Miss("C2", ([1.0, 2.0], [1.0, 2.0], [[1.0, 2.0]], [[1.0, 2.0]])),
    *(
        Miss("C3", ([1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]), {"eps": eps})
        for eps in (0.0, -1e-5, math.inf, math.nan)
    ),
    *(
        Miss("C4", ([[1.0, 2.0]], residual, [1.0, 2.0], [1.0, 2.0]))
        for residual in ([1.0, 2.0], [[1.0], [2.0]], [[1.0, 2.0], [1.0, 2.0]], 1.0)
    ),
)

ELSEWHERE = Elsewhere(
    None,
    None,
    formula="torch.cat([torch.nn.functional.layer_norm(x + residual, gamma.shape, gamma, beta, "
    "eps=eps).flatten(), (x + residual).flatten()])",
)

op = several(
    "add_layer_norm",
    types,
    program,
    (add, layer_norm),
    edges=EDGES,
    refused=REFUSED,
    tried={"eps": (1e-5, 1e-3, 1e-8, 1.0)},
    elsewhere=ELSEWHERE,
)
value = op.value
