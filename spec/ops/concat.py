"""Join tensors along one axis.

    z[i, starts[m] + j, k] = xs[m][i, j, k]     (axis = 1; starts[m] adds up the extents before m)

C1  there is at least one input.
C2  the axis lies in [-rank, rank) of the first input.
C3  all inputs have one rank, and one extent along every other axis.

An input may be empty along the axis. The transpose cuts the cotangent apart again.

Reference: NumPy's concatenate, with an axis always.

>>> from spec.tensor import tensor
>>> op(tensor([10, 20]), tensor([30]), axis=0)
Tensor([10, 20, 30])
>>> op.vjp((tensor([10, 20]), tensor([30])), tensor([5, 6, 7]), axis=0)
(Tensor([5, 6]), Tensor([7]))
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import partial
from itertools import accumulate
from operator import add
from typing import Any, TypeVar

from spec.axes import check_axis, sum_at
from spec.kinds import jointly_linear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.ops.slice import op as slice_
from spec.refusals import Miss
from spec.scalar import Extent, sum_terms
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(*xs: Type, axis: int) -> Type:
    """Accept some inputs (C1), an axis (C2), and shapes that differ along it only (C3)."""
    if not xs:
        raise refuse("concat C1", "there is at least one input", "none")
    at = check_axis("concat C2", xs[0], axis)
    first = xs[0].shape
    rest = (*first[:at], *first[at + 1 :])
    for x in xs[1:]:
        if len(x.shape) != len(first) or (*x.shape[:at], *x.shape[at + 1 :]) != rest:
            raise refuse("concat C3", f"the shapes differ along axis {at} only", f"{xs[0]} and {x}")
    *_, total = accumulate(x.shape[at] for x in xs)
    return Type((*first[:at], total, *first[at + 1 :]))


def value(*xs: Tensor[A, *tuple[Any, ...]], axis: int) -> Tensor[A, *tuple[Any, ...]]:
    """Read each entry from the input that its position falls into."""
    at = axis % xs[0].rank
    extents = [x.shape[at] for x in xs]
    *starts, total = accumulate(extents, initial=0)

    def entry(*i: Any) -> Any:
        def read(m: int, j: Extent) -> A:
            return xs[m][(*i[:at], j, *i[at + 1 :])]

        def found(m: int) -> Any:
            return sum_at(i[at], (extents[m],), partial(add, starts[m]), partial(read, m))

        if all(isinstance(n, int) for n in (i[at], *starts)):
            m = bisect_right(starts, i[at]) - 1
            return read(m, i[at] - starts[m])
        # A symbol may fall into any input, so it is a sum over all, with deltas.
        return sum_terms([found(m) for m in range(len(xs))])

    return tabulate((*xs[0].shape[:at], total, *xs[0].shape[at + 1 :]), entry)


def transposes(cotangent: AnyTensor, *xs: AnyTensor, axis: int) -> tuple[AnyTensor | None, ...]:
    """Cut each input's part out of the cotangent."""
    extents = [x.shape[axis] for x in xs]
    starts = accumulate(extents, initial=0)
    parts = zip(starts, extents, strict=False)
    return tuple(slice_.value(cotangent, axis=axis, start=s, length=n) for s, n in parts)


EDGES = (
    Edge(([], [1.0]), ([1.0],), "IEEE", "an empty input adds nothing", attributes={"axis": 0}),
    Edge(
        ([], [1.0]),
        (([], [-0.0]),),
        "IEEE",
        "an empty input has an empty gradient",
        cotangent=[-0.0],
        attributes={"axis": 0},
    ),
    Edge(
        ([math.nan, -0.0], [math.inf]),
        ([math.nan, -0.0, math.inf],),
        "IEEE",
        "moving keeps NaN, infinities and the sign of zero",
        attributes={"axis": -1},
    ),
    Edge(([2.0],), ([2.0],), "IEEE", "one input is copied", attributes={"axis": 0}),
)

REFUSED = (
    Miss("C1", (), {"axis": 0}),
    *(Miss("C2", ([1.0, 2.0], [3.0]), {"axis": axis}) for axis in (1, -2)),
    Miss("C2", (1.0, 1.0), {"axis": 0}),
    Miss("C3", ([[1.0, 2.0]], [[1.0]]), {"axis": 0}),
    *(Miss("C3", ([[1.0, 2.0]], [1.0, 2.0]), {"axis": axis}) for axis in (0, 1)),
    Miss("C3", ([[1.0, 2.0]], []), {"axis": 0}),
    Miss("C3", ([1.0], [1.0], [[1.0]]), {"axis": 0}),
)

ELSEWHERE = Elsewhere("torch.cat(xs, dim=axis)", "jax.numpy.concatenate")

op = jointly_linear(
    "concat", type_rule, value, transposes, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE
)
