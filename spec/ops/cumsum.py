"""Add the entries of a tensor up along an axis, and keep every sum on the way.

    z[i, k] = sum_{j <= k} x[i, j]

C1  the axis lies in [-rank, rank); the rank is at least 1.

reverse=True adds from the end: j >= k in place of j <= k.
exclusive=True leaves an entry out of its own sum: j < k, or j > k; an empty sum is 0.
Each result is one sum, whose terms may be added in any order: entries outside it never reach it, so
that infinity and NaN stay with the sums they are in.
The transpose adds the cotangent up in the other direction.

Reference: TensorFlow's cumsum, for reverse and exclusive; PyTorch's cumsum has neither.

>>> from spec.tensor import tensor
>>> op(tensor([1, 2, 3]), axis=0), op(tensor([1, 2, 3]), axis=0, reverse=True, exclusive=True)
(Tensor([1, 3, 6]), Tensor([5, 3, 0]))
>>> op.vjp((tensor([1, 2, 3]),), tensor([1, 10, 100]), axis=0)
(Tensor([111, 110, 100]),)
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.axes import BAD_AXIS, along, check_axis, running_sum
from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.scalar import zero_like
from spec.shape import Shape
from spec.tensor import Tensor

A = TypeVar("A")


def type_rule(x: Type, *, axis: int, reverse: bool = False, exclusive: bool = False) -> Type:
    """Accept an axis of x (C1)."""
    check_axis("cumsum C1", x, axis)
    return x


def value(
    x: Tensor[A, *tuple[Any, ...]], *, axis: int, reverse: bool = False, exclusive: bool = False
) -> Tensor[A, *tuple[Any, ...]]:
    """Add the entries up to each one, it included or not."""
    result: Tensor[A, *tuple[Any, ...]] = along(running_sum, x, axis, reverse, exclusive, zero_like)
    return result


def transpose(
    cotangent: AnyTensor,
    shape: Shape,
    *,
    axis: int,
    reverse: bool = False,
    exclusive: bool = False,
) -> AnyTensor:
    """Add the cotangent up in the other direction."""
    return value(cotangent, axis=axis, reverse=not reverse, exclusive=exclusive)


EDGES = (
    Edge(
        ([1.0, math.inf, 2.0, -math.inf],),
        ([1.0, math.inf, math.inf, math.nan],),
        "IEEE",
        "infinity stays with the sums behind it",
        attributes={"axis": 0},
    ),
    Edge(
        ([1.0, math.nan, 2.0],),
        ([math.nan, 2.0, 0.0],),
        "IEEE",
        "what is excluded is no part of a sum",
        attributes={"axis": 0, "reverse": True, "exclusive": True},
    ),
    Edge(([],), ([],), "IEEE", "nothing to add", attributes={"axis": 0}),
    Edge(
        ([1.0, 2.0],),
        (([math.inf, 3.0],),),
        "IEEE",
        "an infinite cotangent reaches what was added",
        cotangent=[math.inf, 3.0],
        attributes={"axis": 0},
    ),
)

TRIED = {"reverse": (False, True), "exclusive": (False, True)}

ELSEWHERE = Elsewhere(
    "torch.cumsum(x, dim=axis)",
    "jax.numpy.cumsum",
    formula=(
        "torch.sum(x, axis, keepdim=True) - called + (not exclusive) * x if reverse else "
        "called - exclusive * x"
    ),
)

op = linear(
    "cumsum",
    type_rule,
    value,
    transpose,
    edges=EDGES,
    refused=BAD_AXIS,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
