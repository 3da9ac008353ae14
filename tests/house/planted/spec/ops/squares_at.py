"""Square the entries at given positions of one axis.

    z[i, j, k] = x[i, indices[j], k]^2        (axis = 1; indices may have any rank)

C1  the axis lies in [-rank, rank).
C2  the indices are integers.
C3  every index lies in [0, extent of the axis); there is no counting from the back.

An entry that was read twice receives both cotangents.

Reference: none; this page exists in a test.

>>> from spec.tensor import tensor
>>> op(tensor([1, 2, 3]), tensor([2, 0, 2]), axis=0)
Tensor([9, 1, 9])
>>> op.vjp((tensor([1, 2, 3]), tensor([2, 0, 2])), tensor([1, 1, 10]), axis=0)
(Tensor([2, 0, 66]), None)
"""

from __future__ import annotations

import math
from typing import Any

from spec.axes import ALONG_AXIS, bad_positions, check_axis
from spec.composite import composite
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.square import op as square
from spec.ops.take import op as take


def type_rule(x: Type, indices: Type, *, axis: int) -> Type:
    """Accept an axis of x (C1) and integer indices (C2)."""
    at = check_axis("squares_at C1", x, axis)
    if not indices.index:
        raise refuse("squares_at C2", "the indices are integers", indices)
    return Type(x.shape[:at] + indices.shape + x.shape[at + 1 :])


def program(ops: Any, x: Any, indices: Any, *, axis: int) -> Any:
    """Take, then square."""
    return ops.square(ops.take(x, indices, axis=axis))


_ALONG = {"axis": 0}

EDGES = (
    Edge(([1.0, 2.0], []), ([],), "IEEE", "nothing selected", None, _ALONG),
    Edge(([-math.inf, math.nan], [0]), ([math.inf],), "IEEE", "what is read", None, _ALONG),
    Edge(
        ([math.inf, 3.0], [1, 1]),
        (([0.0, 30.0], None),),
        "CHOICE",
        "what nothing reads receives 0, and repeated indices accumulate",
        cotangent=[1.0, 4.0],
        attributes=_ALONG,
    ),
)

op = composite(
    "squares_at",
    type_rule,
    program,
    (take, square),
    index_inputs=(1,),
    index_ranges=(ALONG_AXIS,),
    edges=EDGES,
    refused=bad_positions(),
    elsewhere=Elsewhere(None, None, formula="numpy.square(numpy.take(x, indices, axis=axis))"),
)
value = op.value
