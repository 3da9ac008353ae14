"""Average the entries of a tensor along some axes.

    z[i] = (sum_k x[i, k]) / n        (k runs over the n entries along the reduced axes)

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.
C3  no reduced axis is empty: nothing has no average.

axes=None reduces all axes; keepdims=True leaves an extent of 1 in place of each.
The sum is divided once: there is no rounded 1 / n to multiply by.

Reference: NumPy's mean, for axes and keepdims.

>>> from spec.tensor import tensor
>>> op(tensor([[1.0, 2.0], [3.0, 6.0]]), axes=(1,))
Tensor([1.5, 4.5])
>>> op.vjp((tensor([1.0, 2.0, 6.0, 8.0]),), tensor(2.0))
(Tensor([0.5, 0.5, 0.5, 0.5]),)
"""

from __future__ import annotations

import math
from typing import Any

from spec.axes import NOT_FULL_AXES, check_full_axes, split_axes
from spec.composite import composite
from spec.op import Edge, Elsewhere, Type
from spec.ops.div import op as div
from spec.ops.sum import op as sum_
from spec.shape import reduced, size


def type_rule(x: Type, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Type:
    """Accept distinct axes of x (C1, C2), none of them empty (C3)."""
    return Type(reduced(x.shape, check_full_axes("mean", x, axes), keepdims))


def program(
    ops: Any, x: Any, *, axes: tuple[int, ...] | None = None, keepdims: bool = False
) -> Any:
    """Add, and divide by the number of entries that were added."""
    _, gone = split_axes(len(x.shape), axes)
    total = ops.sum(x, axes=axes, keepdims=keepdims)
    number = size(tuple(x.shape[axis] for axis in gone))
    return ops.div(total, ops.constant(number, total.shape, like=x))


EDGES = (
    Edge(([math.inf, -math.inf],), (math.nan,), "IEEE", "opposite infinities have no sum"),
    Edge(([math.nan, 1.0],), (math.nan,), "IEEE", "NaN propagates"),
    Edge(([math.inf, 1.0],), (math.inf,), "IEEE", "an infinite entry"),
    Edge(([[3.0]],), ([[3.0]],), "IEEE", "one term is itself", attributes={"keepdims": True}),
    Edge(([-0.0],), (-0.0, 0.0), "CHOICE", "the zero may keep its sign"),
    Edge(([0.1, 0.7],), ([0.1, 0.7],), "IEEE", "no axis reduced", attributes={"axes": ()}),
    Edge(([[], []],), ([],), "IEEE", "no mean to take", attributes={"axes": (0,)}),
    Edge(([2.0],), (([5.0],),), "IEEE", "one entry takes all", cotangent=5.0),
    Edge(
        ([1.0, 2.0, 3.0, 4.0],),
        (([0.75] * 4,),),
        "IEEE",
        "an equal share to each",
        cotangent=3.0,
    ),
    Edge(
        ([[1.0], [2.0]],),
        (([[0.0], [math.inf]],),),
        "IEEE",
        "an infinite cotangent stays with its row",
        cotangent=[0.0, math.inf],
        attributes={"axes": (1,)},
    ),
)

ELSEWHERE = Elsewhere("torch.mean(x, dim=axes, keepdim=keepdims)", "jax.numpy.mean")

op = composite(
    "mean", type_rule, program, (sum_, div), edges=EDGES, refused=NOT_FULL_AXES, elsewhere=ELSEWHERE
)
value = op.value
