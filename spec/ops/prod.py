"""Multiply the entries of a tensor along some axes.

    z[i] = prod_k x[i, k]        (k runs over the reduced axes)

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.

The rate of an entry is the product of all others, formed without a division.
The factors of a product may be multiplied in any order (CHOICE). So it is promised where no product
of some of them is out of range: what overflows or underflows on the way may be lost.

Reference: PyTorch's prod, whose gradient divides where no entry is 0.

>>> from spec.tensor import tensor
>>> op(tensor([[2.0, 3.0], [4.0, 0.0]]), axes=(1,))
Tensor([6.0, 0.0])
>>> op.vjp((tensor([[2.0, 3.0], [4.0, 0.0]]),), tensor([1.0, 10.0]), axes=(1,))
(Tensor([[3.0, 2.0], [0.0, 40.0]]),)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Any, TypeVar

from spec.axes import (
    BAD_AXES,
    Prefixes,
    check_axes,
    fibre,
    kept_index,
    reduction,
    running_product,
    split_axes,
)
from spec.kinds import irregular
from spec.op import AnyTensor, Edge, Elsewhere, Type, zeros_like
from spec.scalar import Extent, product_over, sum_over
from spec.shape import offset, reduced, size, unravel
from spec.tensor import Tensor, tabulate, zip_map

A = TypeVar("A")
Axes = tuple[int, ...] | None


def type_rule(x: Type, *, axes: Axes = None, keepdims: bool = False) -> Type:
    """Accept distinct axes of x (C1, C2)."""
    return Type(reduced(x.shape, check_axes("prod", x, axes), keepdims))


def value(
    x: Tensor[A, *tuple[Any, ...]], *, axes: Axes = None, keepdims: bool = False
) -> Tensor[A, *tuple[Any, ...]]:
    """Multiply the entries along the axes."""
    return reduction(product_over, x, axes, keepdims)


def _others(x: AnyTensor, axes: Axes) -> AnyTensor:
    """Return, for each entry, the product of all others in its slice."""
    kept, gone = split_axes(x.rank, axes)
    extents = tuple(x.shape[axis] for axis in gone)
    count = size(extents)

    def ends(*i: Extent) -> tuple[Prefixes, Prefixes]:
        below = fibre(i, x.rank, kept, gone, False)
        return (
            running_product(count, lambda p: x[below(*unravel(extents, p))]),
            running_product(count, lambda p: x[below(*unravel(extents, count - 1 - p))]),
        )

    lines: AnyTensor = tabulate(reduced(x.shape, gone, False), ends)

    def entry(*i: Extent) -> Any:
        before, behind = lines[kept_index(i, kept, False)]
        place = offset(extents, tuple(i[axis] for axis in gone))
        return before(place) * behind(count - 1 - place)

    return tabulate(x.shape, entry)


def jvp(
    inputs: Sequence[AnyTensor],
    tangents: Sequence[AnyTensor | None],
    *,
    axes: Axes = None,
    keepdims: bool = False,
) -> AnyTensor:
    """Put each tangent in the place of its entry, and add the products up."""
    (x,), (tangent,) = inputs, tangents
    if tangent is None:
        return zeros_like(value(x, axes=axes, keepdims=keepdims))
    moved: AnyTensor = zip_map(mul, _others(x, axes), tangent)
    result: AnyTensor = reduction(sum_over, moved, axes, keepdims)
    return result


def vjp(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, axes: Axes = None, keepdims: bool = False
) -> tuple[AnyTensor | None, ...]:
    """Multiply the cotangent by all other entries."""
    (x,) = inputs
    (kept, _), others = split_axes(x.rank, axes), _others(x, axes)
    return (tabulate(x.shape, lambda *i: others[i] * cotangent[kept_index(i, kept, keepdims)]),)


EDGES = (
    Edge(([0.0, math.inf],), (math.nan,), "IEEE", "0 times infinity"),
    Edge(([math.nan, 0.0],), (math.nan,), "IEEE", "NaN propagates"),
    Edge(([],), (1.0,), "IEEE", "an empty product is 1"),
    Edge(([0.0, 3.0, 0.0],), (([0.0, 0.0, 0.0],),), "IEEE", "of two zeros", cotangent=2.0),
    Edge(([0.0, 3.0, 5.0],), (([30.0, 0.0, 0.0],),), "IEEE", "of one zero", cotangent=2.0),
    Edge(([3.0],), (([math.inf],),), "IEEE", "of nothing else", cotangent=math.inf),
)

op = irregular(
    "prod", type_rule, value, jvp, vjp, edges=EDGES, refused=BAD_AXES,
    elsewhere=Elsewhere("torch.prod(x, dim=axes, keepdim=keepdims)", "jax.numpy.prod"),
)  # fmt: skip
