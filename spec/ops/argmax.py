"""Find the place of the largest entry, along one axis or in the whole tensor.

    z[i] = min { k : x[i, k] = max_j x[i, j] }        (k runs along the axis)

C1  the axis, if one is named, lies in [-rank, rank).
C2  what is searched is not empty: nothing has no largest entry.

Without an axis, places are counted in row-major order over all entries.
The result holds integers, which other ops take as indices; nothing moves them, so they have neither
tangent nor cotangent.

Conventions (CHOICE): of entries that tie for the largest, the first is meant. NaN counts as larger
than every number, so that the first NaN is found where there is one.

Reference: PyTorch's argmax on a CPU, and NumPy's.

>>> from spec.tensor import tensor
>>> op(tensor([[1.0, 5.0], [7.0, 7.0]]), axis=1)
Tensor([1, 0])
>>> op(tensor([[1.0, 5.0], [7.0, 7.0]]))
Tensor(2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import Any

from spec.axes import check_axis, reduction
from spec.kinds import positions
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.scalar import Extent, equal, is_nan, max_over, select
from spec.shape import reduced


def type_rule(x: Type, *, axis: int | None = None, keepdims: bool = False) -> Type:
    """Accept an axis of x, or none (C1), along which there are entries (C2)."""
    return searched("argmax", x, axis, keepdims)


def searched(name: str, x: Type, axis: int | None, keepdims: bool) -> Type:
    """Return the type of the places along an axis, or refuse the axis, by an op's name."""
    every = tuple(range(len(x.shape)))
    gone = every if axis is None else (check_axis(f"{name} C1", x, axis),)
    if any(x.shape[k] == 0 for k in gone):
        raise refuse(f"{name} C2", "what is searched is not empty", f"axis={axis!r} of {x}")
    return Type(reduced(x.shape, gone, keepdims), index=True)


def value(x: AnyTensor, *, axis: int | None = None, keepdims: bool = False) -> AnyTensor:
    """Compare each entry with the largest, and count from the end what lies behind the first."""
    return reduction(_first_largest, x, None if axis is None else (axis,), keepdims)


def _first_largest(extents: Sequence[Extent], term: Callable[..., Any]) -> Any:
    """Return the place of the first term that is the largest, or NaN."""
    largest = max_over(extents, term)
    count = reduce(mul, extents, 1)

    def left(*index: Extent) -> Any:
        place = reduce(
            lambda so_far, ki: so_far * ki[1] + ki[0], zip(index, extents, strict=True), 0
        )
        same = select(equal(term(*index), largest), count - place, 0)
        return select(is_nan(term(*index)), count - place, same)

    return count - max_over(extents, left)


EDGES = (
    Edge(([2.0, 5.0, 5.0],), (1,), "CHOICE", "the first of a tie"),
    Edge(([0.0, -0.0, 0.0],), (0,), "IEEE", "zeros of either sign are equal"),
    Edge(([9.0, math.nan, math.inf, math.nan],), (1,), "CHOICE", "the first NaN is the largest"),
    Edge(([-math.inf, -math.inf],), (0,), "IEEE", "even of what is infinitely small"),
    Edge((3.0,), (0,), "IEEE", "of one number"),
    Edge(([[], []],), ([],), "IEEE", "columns of which there are none", attributes={"axis": 0}),
    Edge(
        ([[1.0, 4.0], [4.0, 2.0]],),
        ([[1]],),
        "CHOICE",
        "in row-major order",
        attributes={"keepdims": True},
    ),
)

NOWHERE = (
    *(Miss("C1", ([1.0, 2.0],), {"axis": axis}) for axis in (1, -2, 1.0, True)),
    Miss("C1", (1.0,), {"axis": 0}),
    Miss("C2", ([],)),
    Miss("C2", ([[], []],)),
    Miss("C2", ([[], []],), {"axis": 1}),
)
"""Axes that there are not, and such as have no entries."""

ELSEWHERE = Elsewhere("torch.argmax(x, dim=axis, keepdim=keepdims)", "jax.numpy.argmax")

op = positions("argmax", type_rule, value, edges=EDGES, refused=NOWHERE, elsewhere=ELSEWHERE)
