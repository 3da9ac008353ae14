"""Select entries along one axis by their positions.

    z[i, j, k] = x[i, indices[j], k]        (axis = 1; indices may have any rank)

C1  the axis lies in [-rank, rank).
C2  the indices are integers.
C3  every index lies in [0, extent of the axis); there is no counting from the back.

The transpose scatters: an entry selected twice receives both cotangents, added in index order.

Reference: NumPy's take, without its modes.

>>> from spec.tensor import tensor
>>> op(tensor([10, 20, 30]), tensor([2, 0, 2]), axis=0)
Tensor([30, 10, 30])
>>> op.vjp((tensor([10, 20, 30]), tensor([2, 0, 2])), tensor([1, 2, 3]), axis=0)
(Tensor([2, 0, 4]), None)
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.axes import ALONG_AXIS, bad_positions, check_axis, sum_at
from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.shape import Shape
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(x: Type, indices: Type, *, axis: int) -> Type:
    """Accept an axis of x (C1) and integer indices (C2)."""
    at = check_axis("take C1", x, axis)
    if not indices.index:
        raise refuse("take C2", "the indices are integers", indices)
    return Type(x.shape[:at] + indices.shape + x.shape[at + 1 :])


def value(
    x: Tensor[A, *tuple[Any, ...]], indices: Tensor[int, *tuple[Any, ...]], *, axis: int
) -> Tensor[A, *tuple[Any, ...]]:
    """Read x at the selected positions of the axis."""
    at, rank = axis % x.rank, indices.rank
    target = x.shape[:at] + indices.shape + x.shape[at + 1 :]

    def entry(*i: Any) -> A:
        return x[(*i[:at], indices[i[at : at + rank]], *i[at + rank :])]

    return tabulate(target, entry)


def transpose(cotangent: AnyTensor, shape: Shape, indices: AnyTensor, *, axis: int) -> AnyTensor:
    """Add up, at each position, the cotangents of the entries that were read from it."""
    at = axis % len(shape)

    def entry(*i: Any) -> Any:
        def share(*j: Any) -> Any:
            return cotangent[(*i[:at], *j, *i[at + 1 :])]

        return sum_at(i[at], tuple(indices.shape), lambda *j: indices[j], share)

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
        ([1.0, 2.0], [1, 1, 1]),
        (([0.0, 7.0], None),),
        "CHOICE",
        "repeated indices accumulate",
        cotangent=[1.0, 2.0, 4.0],
        attributes={"axis": 0},
    ),
    Edge(
        ([1.0, 2.0, 3.0], [2, 0]),
        (([5.0, 0.0, math.inf], None),),
        "IEEE",
        "an infinite cotangent stays with what was read",
        cotangent=[math.inf, 5.0],
        attributes={"axis": 0},
    ),
)

REFUSED = bad_positions()

ELSEWHERE = Elsewhere(
    "torch.index_select(x, axis, indices)",
    "jax.numpy.take",
    formula="numpy.take(x, indices, axis=axis)",
)

op = linear(
    "take",
    type_rule,
    value,
    transpose,
    index_inputs=(1,),
    index_ranges=(ALONG_AXIS,),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
