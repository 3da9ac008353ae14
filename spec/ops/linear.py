"""Apply a matrix of weights and a bias to the last axis.

    z[..., o] = sum_i x[..., i] * w[o, i] + b[o]

C1  x has at least one axis, w has two, b has one.
C2  the last extent of x equals the last of w.
C3  the extent of b equals the first of w.

A composite: reshape to a matrix, multiply by w transposed, add the bias to every row.

Reference: PyTorch's functional linear.

>>> from spec.tensor import tensor
>>> op(tensor([1, 2]), tensor([[1, 0], [0, 1], [1, 1]]), tensor([10, 20, 30]))
Tensor([11, 22, 33])
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.broadcast_to import op as broadcast_to
from spec.ops.matmul import op as matmul
from spec.ops.permute import op as permute
from spec.ops.reshape import op as reshape
from spec.refusals import Miss
from spec.shape import size


def type_rule(x: Type, w: Type, b: Type) -> Type:
    """Accept ranks (C1), inner extents (C2) and bias (C3) that fit."""
    return fitting("linear", x, w, b)


def fitting(name: str, x: Type, w: Type, b: Type) -> Type:
    """Return the type of a product with a bias; what does not fit, the op of this name refuses."""
    came = f"x {x}, w {w}, b {b}"
    if len(x.shape) < 1 or len(w.shape) != 2 or len(b.shape) != 1:
        raise refuse(f"{name} C1", "x has at least one axis, w has two, b has one", came)
    if x.shape[-1] != w.shape[1]:
        raise refuse(f"{name} C2", "the last extents of x and w are equal", came)
    if b.shape[0] != w.shape[0]:
        raise refuse(f"{name} C3", "the extent of b equals the first of w", came)
    return Type((*x.shape[:-1], w.shape[0]))


def program(ops: Any, x: Any, w: Any, b: Any) -> Any:
    """Multiply by w transposed and add the bias to every row."""
    rows, (wide, deep) = size(x.shape[:-1]), w.shape
    product = ops.matmul(ops.reshape(x, shape=(rows, deep)), ops.permute(w, axes=(1, 0)))
    biased = ops.add(product, ops.broadcast_to(b, shape=(rows, wide)))
    return ops.reshape(biased, shape=(*x.shape[:-1], wide))


EDGES = (
    Edge(([], [[], []], [1.0, 2.0]), ([1.0, 2.0],), "IEEE", "no inputs leave the bias"),
    Edge(([[math.inf]], [[0.0]], [1.0]), ([[math.nan]],), "IEEE", "infinity times zero"),
)

REFUSED = (
    Miss("C1", (1.0, [[1.0]], [1.0])),
    Miss("C1", ([1.0, 2.0], [1.0, 2.0], [1.0])),
    Miss("C1", ([1.0], [[1.0]], 1.0)),
    Miss("C2", ([1.0], [[1.0, 2.0]], [1.0])),
    Miss("C2", ([1.0, 2.0], [[1.0], [2.0]], [1.0, 2.0])),
    Miss("C3", ([1.0], [[1.0], [2.0]], [1.0])),
    Miss("C3", ([1.0], [[1.0], [2.0]], [1.0, 2.0, 3.0])),
)

ELSEWHERE = Elsewhere("torch.nn.functional.linear(x, w, b)", None)

op = composite(
    "linear",
    type_rule,
    program,
    (reshape, permute, matmul, broadcast_to, add),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
value = op.value
