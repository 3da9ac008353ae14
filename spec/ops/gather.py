"""Select, at each place, an entry along one axis by a position of its own.

    z[i, j, k] = x[i, indices[i, j, k], k]      (axis = 1)

C1  the axis lies in [-rank, rank).
C2  the indices are integers.
C3  every index lies in [0, extent of the axis); there is no counting from the back.
C4  the indices have x's shape but for the axis, along which they have any extent.

The transpose scatters: an entry selected twice receives both cotangents, added in index order.

>>> from spec.tensor import tensor
>>> op(tensor([[10, 20], [30, 40]]), tensor([[1, 1], [0, 1]]), axis=1)
Tensor([[20, 20], [30, 40]])
>>> op.vjp((tensor([[0, 0], [0, 0]]), tensor([[1, 1], [0, 1]])), tensor([[1, 2], [3, 4]]), axis=1)
(Tensor([[0, 3], [3, 4]]), None)
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, TypeVar

from spec.axes import ALONG_AXIS, bad_positions, check_axis, sum_at
from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.scalar import Extent
from spec.shape import Shape
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(x: Type, indices: Type, *, axis: int) -> Type:
    """Accept an axis of x (C1), integer indices (C2), and such as lie along it (C4)."""
    at = check_axis("gather C1", x, axis)
    if not indices.index:
        raise refuse("gather C2", "the indices are integers", indices)
    shape = indices.shape
    if len(shape) != len(x.shape) or (*x.shape[:at], shape[at], *x.shape[at + 1 :]) != shape:
        rule = f"the indices have x's shape but for axis {at}"
        raise refuse("gather C4", rule, f"{indices} for {x}")
    return Type(shape)


def value(
    x: Tensor[A, *tuple[Any, ...]], indices: Tensor[int, *tuple[Any, ...]], *, axis: int
) -> Tensor[A, *tuple[Any, ...]]:
    """Read x, at each place, at its own position of the axis."""
    at = axis % x.rank
    return tabulate(indices.shape, lambda *i: x[(*i[:at], indices[i], *i[at + 1 :])])


def transpose(cotangent: AnyTensor, shape: Shape, indices: AnyTensor, *, axis: int) -> AnyTensor:
    """Add up, at each position, the cotangents of the entries that were read from it."""
    at = axis % len(shape)

    def entry(*i: Any) -> Any:
        def read(tensor: AnyTensor, j: Extent) -> Any:
            return tensor[(*i[:at], j, *i[at + 1 :])]

        return sum_at(i[at], (indices.shape[at],), partial(read, indices), partial(read, cotangent))

    return tabulate(shape, entry)


EDGES = (
    Edge(([1.0, 2.0], []), ([],), "IEEE", "nothing selected", attributes={"axis": 0}),
    Edge(
        ([1.0, 2.0], []),
        (([0.0, 0.0], None),),
        "IEEE",
        "what nothing reads has no effect",
        cotangent=[],
        attributes={"axis": 0},
    ),
    Edge(
        ([-0.0, math.nan, math.inf], [0, 2, 1, 0]),
        ([-0.0, math.inf, math.nan, -0.0],),
        "IEEE",
        "moving keeps NaN, infinities and the sign of zero",
        attributes={"axis": 0},
    ),
    Edge(
        ([[1.0, 2.0], [3.0, 4.0]], [[1, 1, 1], [0, 1, 0]]),
        (([[0.0, 7.0], [math.inf, 16.0]], None),),
        "CHOICE",
        "repeated indices accumulate, each in its own row",
        cotangent=[[1.0, 2.0, 4.0], [8.0, 16.0, math.inf]],
        attributes={"axis": 1},
    ),
)

_MATRIX: Any = [[1.0, 2.0], [3.0, 4.0]]

REFUSED = (
    *bad_positions(),
    *(Miss("C4", (_MATRIX, wrong), {"axis": 0}) for wrong in ([0, 1], [[0]], [[[0, 1]]], [])),
    Miss("C4", (_MATRIX, [[0, 1]]), {"axis": 1}),
)

ELSEWHERE = Elsewhere("torch.gather(x, axis, indices)", "jax.numpy.take_along_axis")

op = linear(
    "gather", type_rule, value, transpose, index_inputs=(1,), index_ranges=(ALONG_AXIS,),
    edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE,
)  # fmt: skip
