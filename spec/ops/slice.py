"""Cut an interval out of one axis.

    z[i, j, k] = x[i, start + j, k]     for j < length      (axis = 1)

C1  the axis lies in [-rank, rank).
C2  start and length are integers >= 0, and start + length is at most the extent of the axis.

The transpose pads: what was cut away has no effect, so its cotangent is 0.

Reference: PyTorch's narrow; there is no counting from the back, and no step.

>>> from spec.tensor import tensor
>>> op(tensor([10, 20, 30, 40]), axis=0, start=1, length=2)
Tensor([20, 30])
>>> op.vjp((tensor([10, 20, 30, 40]),), tensor([5, 6]), axis=0, start=1, length=2)
(Tensor([0, 5, 6, 0]),)
"""

from __future__ import annotations

import math
from functools import partial
from operator import add
from typing import Any, TypeVar

from spec.axes import check_axis, sum_at
from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.scalar import Extent, sum_terms
from spec.shape import Shape, is_extent
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(x: Type, *, axis: int, start: Extent, length: Extent) -> Type:
    """Accept an axis (C1) and an interval within its extent (C2)."""
    at = check_axis("slice C1", x, axis)
    extent = x.shape[at]
    if not (is_extent(start) and is_extent(length)) or start + length > extent:
        rule = f"start and length are integers >= 0, together at most {extent}"
        raise refuse("slice C2", rule, f"{start} and {length}")
    return Type((*x.shape[:at], length, *x.shape[at + 1 :]))


def value(
    x: Tensor[A, *tuple[Any, ...]], *, axis: int, start: Extent, length: Extent
) -> Tensor[A, *tuple[Any, ...]]:
    """Read x from start on."""
    at = axis % x.rank
    target = (*x.shape[:at], length, *x.shape[at + 1 :])
    return tabulate(target, lambda *i: x[(*i[:at], start + i[at], *i[at + 1 :])])


def transpose(
    cotangent: AnyTensor, shape: Shape, *, axis: int, start: Extent, length: Extent
) -> AnyTensor:
    """Put the cotangent where it was cut out, between zeros."""
    at = axis % len(shape)

    def entry(*i: Any) -> Any:
        def share(j: Extent) -> Any:
            return cotangent[(*i[:at], j, *i[at + 1 :])]

        if all(isinstance(n, int) for n in (i[at], start, length)):
            # The one place that it can come from is known, and there is no need to look at all.
            j = i[at] - start
            return sum_terms([share(j)] if 0 <= j < length else [])
        return sum_at(i[at], (length,), partial(add, start), share)

    return tabulate(shape, entry)


EDGES = (
    Edge(
        ([1.0, 2.0],),
        ([],),
        "IEEE",
        "an interval may be empty, also at the end",
        attributes={"axis": 0, "start": 2, "length": 0},
    ),
    Edge(
        ([1.0, 2.0],),
        (([0.0, 0.0],),),
        "IEEE",
        "what was cut away has no effect",
        cotangent=[],
        attributes={"axis": 0, "start": 1, "length": 0},
    ),
    Edge(
        ([1.0, -0.0, math.nan],),
        ([-0.0, math.nan],),
        "IEEE",
        "moving keeps NaN and the sign of zero",
        attributes={"axis": 0, "start": 1, "length": 2},
    ),
    Edge(
        ([1.0, 2.0, 3.0, 4.0],),
        (([0.0, math.inf, -0.0, 0.0],),),
        "IEEE",
        "beside an infinity there are zeros",
        cotangent=[math.inf, -0.0],
        attributes={"axis": 0, "start": 1, "length": 2},
    ),
)

REFUSED = (
    *(Miss("C1", ([1.0, 2.0],), {"axis": a, "start": 0, "length": 1}) for a in (1, -2, True)),
    Miss("C1", (1.0,), {"axis": 0, "start": 0, "length": 0}),
    *(
        Miss("C2", ([1.0, 2.0],), {"axis": 0, "start": start, "length": length})
        for start, length in ((-1, 1), (1, -1), (1, 2), (3, 0), (0.0, 1), (0, 1.0), (0, True))
    ),
)

ELSEWHERE = Elsewhere("torch.narrow(x, axis, start, length)", "jax.lax.slice_in_dim")

op = linear("slice", type_rule, value, transpose, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE)
