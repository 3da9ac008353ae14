"""Add entries into a tensor along one axis, at given positions.

    z[i, p, k] = x[i, p, k] + sum of source[i, j, k] over j with indices[j] = p     (axis = 1)

C1  the axis lies in [-rank, rank).
C2  the indices are integers.
C3  every index lies in [0, extent of the axis); there is no counting from the back.
C4  the source has x's shape, with the shape of the indices in place of the axis.

The indices may have any rank; entries for one position are added in their order, after x's own.
The transpose hands x the whole cotangent, and the source what take finds at the indices.

>>> from spec.tensor import tensor
>>> op(tensor([10, 20, 30]), tensor([2, 0, 2]), tensor([1, 2, 3]), axis=0)
Tensor([12, 20, 34])
>>> op.vjp((tensor([0, 0]), tensor([1, 1]), tensor([0, 0])), tensor([3, 4]), axis=0)
(Tensor([3, 4]), None, Tensor([4, 4]))
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.axes import ALONG_AXIS, bad_positions, check_axis, sum_at
from spec.kinds import jointly_linear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.ops.take import op as take
from spec.refusals import Miss
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(x: Type, indices: Type, source: Type, *, axis: int) -> Type:
    """Accept an axis of x (C1), integer indices (C2), and a source that fits both (C4)."""
    at = check_axis("scatter_add C1", x, axis)
    if not indices.index:
        raise refuse("scatter_add C2", "the indices are integers", indices)
    fitting = x.shape[:at] + indices.shape + x.shape[at + 1 :]
    if source.shape != fitting:
        raise refuse("scatter_add C4", f"the source has the shape {fitting}", source)
    return x


def value(
    x: Tensor[A, *tuple[Any, ...]],
    indices: Tensor[int, *tuple[Any, ...]],
    source: Tensor[A, *tuple[Any, ...]],
    *,
    axis: int,
) -> Tensor[A, *tuple[Any, ...]]:
    """Add to each entry of x, as one sum, what the source sends to its position."""
    at = axis % x.rank

    def entry(*i: Any) -> Any:
        def share(*j: Any) -> A:
            return source[(*i[:at], *j, *i[at + 1 :])]

        return sum_at(i[at], tuple(indices.shape), lambda *j: indices[j], share, onto=x[i])

    return tabulate(x.shape, entry)


def transposes(
    cotangent: AnyTensor, x: AnyTensor, indices: AnyTensor, source: AnyTensor, *, axis: int
) -> tuple[AnyTensor | None, ...]:
    """Hand the cotangent on to x, and to the source what it has at the positions."""
    del x, source
    return cotangent, None, take.value(cotangent, indices, axis=axis)


EDGES = (
    Edge(
        ([1.0, -0.0], [], []),
        ([1.0, -0.0],),
        "IEEE",
        "where nothing is added, the sign of zero stays",
        attributes={"axis": 0},
    ),
    Edge(
        ([1.0, math.nan, -math.inf], [0, 0, 2], [2.0, 4.0, math.inf]),
        ([7.0, math.nan, math.nan],),
        "CHOICE",
        "repeated indices accumulate, each in its place",
        attributes={"axis": 0},
    ),
    Edge(
        ([1.0, 2.0], [1, 1], [1.0, 2.0]),
        (([3.0, math.inf], None, [math.inf, math.inf]),),
        "IEEE",
        "each source entry has the cotangent of its position",
        cotangent=[3.0, math.inf],
        attributes={"axis": 0},
    ),
)

REFUSED = (
    *bad_positions([1.0]),
    *(Miss("C4", ([1.0, 2.0], [0], wrong), {"axis": 0}) for wrong in ([1.0, 2.0], 1.0, [[1.0]])),
)

ELSEWHERE = Elsewhere(
    "torch.index_add(x, axis, indices, source)", "jax.Array.at",
    "torch.index_add(x, axis, indices.ravel(), "
    "source.reshape([*x.shape[:axis], indices.numel(), *x.shape[axis:][1:]]))",
)  # fmt: skip

op = jointly_linear(
    "scatter_add", type_rule, value, transposes, index_inputs=(1,), index_ranges=(ALONG_AXIS,),
    edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE,
)  # fmt: skip
