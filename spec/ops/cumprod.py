"""Multiply the entries of a tensor along an axis, and keep every product on the way.

    z[i, k] = prod_{j <= k} x[i, j]

C1  the axis lies in [-rank, rank); the rank is at least 1.

The factors of each product may be multiplied in any order, with what follows on the page of `prod`.
The rate of z[k] in x[j] is the product of the other entries up to k, without a division: of those
before j, by those between j and k. So the gradient of x[j] is

    dx[j] = (prod_{i < j} x[i]) s[j],    s[j] = g[j] + x[j + 1] s[j + 1],

and right where one entry is 0, or several are. The s are sums of products, both formed in any order
(CHOICE): where an infinite entry is multiplied by several terms, their sum may be NaN.

Reference: PyTorch's cumprod, whose gradient divides where no entry is 0.

>>> from spec.tensor import tensor
>>> op(tensor([2.0, 3.0, 0.0, 5.0]), axis=0)
Tensor([2.0, 6.0, 0.0, 0.0])
>>> op.vjp((tensor([2.0, 0.0, 3.0]),), tensor([1.0, 10.0, 100.0]), axis=0)
(Tensor([1.0, 620.0, 0.0]),)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from operator import mul
from typing import Any, TypeVar

from spec.axes import BAD_AXIS, along, carried_along, check_axis, running_product
from spec.kinds import irregular
from spec.op import AnyTensor, Edge, Elsewhere, Type, zeros_like
from spec.scalar import lift
from spec.tensor import Tensor, zip_map

A = TypeVar("A")


def type_rule(x: Type, *, axis: int) -> Type:
    """Accept an axis of x (C1)."""
    check_axis("cumprod C1", x, axis)
    return x


def _one(like: Any) -> Any:
    return lift(like, Fraction(1))


def value(x: Tensor[A, *tuple[Any, ...]], *, axis: int) -> Tensor[A, *tuple[Any, ...]]:
    """Multiply the entries up to each one."""
    result: Tensor[A, *tuple[Any, ...]] = along(running_product, x, axis, False, False, _one)
    return result


def _before(x: AnyTensor, axis: int) -> AnyTensor:
    """Return the product of the entries before each one."""
    return along(running_product, x, axis, False, True, _one)


def jvp(
    inputs: Sequence[AnyTensor], tangents: Sequence[AnyTensor | None], *, axis: int
) -> AnyTensor:
    """Carry what has moved on by each entry, and add its own: t[k] times what lies before it."""
    (x,), (tangent,) = inputs, tangents
    if tangent is None:
        return zeros_like(x)
    moved: AnyTensor = zip_map(mul, _before(x, axis), tangent)
    return carried_along(x, moved, axis, False)


def vjp(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, axis: int
) -> tuple[AnyTensor | None, ...]:
    """Carry cotangents back by each entry behind, and multiply by what lies before."""
    (x,) = inputs
    carried = carried_along(x, cotangent, axis, True)
    return (zip_map(mul, _before(x, axis), carried),)


_AT, _ZEROS = {"axis": 0}, ([0.0, 3.0, 0.0],)
EDGES = (
    Edge(([2.0, 0.0, math.inf],), ([2.0, 0.0, math.nan],), "IEEE", "0 times infinity", None, _AT),
    Edge(([math.nan, 0.0],), ([math.nan, math.nan],), "IEEE", "NaN propagates", None, _AT),
    Edge(([],), ([],), "IEEE", "nothing to multiply", None, _AT),
    Edge(_ZEROS, (([5.0, 0.0, 0.0],),), "IEEE", "of two zeros", [2.0, 1.0, 7.0], _AT),
    Edge(([3.0],), (([math.inf],),), "IEEE", "of nothing else", [math.inf], _AT),
)

ELSEWHERE = Elsewhere("torch.cumprod(x, dim=axis)", "jax.numpy.cumprod")

op = irregular(
    "cumprod", type_rule, value, jvp, vjp, edges=EDGES, refused=BAD_AXIS, elsewhere=ELSEWHERE
)
