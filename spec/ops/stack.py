"""Join tensors of one shape along a new axis.

    z[i, m, j] = xs[m][i, j]        (axis = 1)

C1  there is at least one input.
C2  the axis lies in [-rank - 1, rank + 1), where rank is that of the inputs.
C3  all shapes are equal.

Each input gets an axis of extent 1, along which they are joined.

Reference: NumPy's stack, with an axis always.

>>> from spec.tensor import tensor
>>> op(tensor([1, 2]), tensor([3, 4]), axis=-1), op(tensor(5), axis=0)
(Tensor([[1, 3], [2, 4]]), Tensor([5]))
>>> op.vjp((tensor([1, 2]), tensor([3, 4])), tensor([[5, 6], [7, 8]]), axis=0)
(Tensor([5, 6]), Tensor([7, 8]))
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.concat import op as concat
from spec.ops.reshape import op as reshape
from spec.refusals import Miss
from spec.shape import normalize_axis


def type_rule(*xs: Type, axis: int) -> Type:
    """Accept some inputs (C1), a place for an axis (C2), and equal shapes (C3)."""
    if not xs:
        raise refuse("stack C1", "there is at least one input", "none")
    shape = xs[0].shape
    places = len(shape) + 1
    at = normalize_axis(axis, places)
    if at is None:
        rule = f"the axis lies in [-{places}, {places})"
        raise refuse("stack C2", rule, f"{axis} for {xs[0]}")
    for x in xs[1:]:
        if x.shape != shape:
            raise refuse("stack C3", "all shapes are equal", f"{xs[0]} and {x}")
    return Type((*shape[:at], len(xs), *shape[at:]))


def program(ops: Any, *xs: Any, axis: int) -> Any:
    """Give each input an axis of extent 1, and join along it."""
    shape = xs[0].shape
    at = axis % (len(shape) + 1)
    wide = (*shape[:at], 1, *shape[at:])
    return ops.concat(*(ops.reshape(x, shape=wide) for x in xs), axis=at)


EDGES = (
    Edge(([], []), ([[], []],), "IEEE", "empty inputs are counted", attributes={"axis": 0}),
    Edge(
        (-0.0, math.nan),
        ([-0.0, math.nan],),
        "IEEE",
        "scalars make a vector, and keep NaN and the sign of zero",
        attributes={"axis": -1},
    ),
    Edge(
        ([1.0], [2.0]),
        (([math.inf], [-0.0]),),
        "IEEE",
        "each input receives its part",
        cotangent=[[math.inf, -0.0]],
        attributes={"axis": 1},
    ),
)

REFUSED = (
    Miss("C1", (), {"axis": 0}),
    *(Miss("C2", ([1.0, 2.0], [3.0, 4.0]), {"axis": axis}) for axis in (2, -3, True)),
    Miss("C2", (1.0, 1.0), {"axis": 1}),
    *(Miss("C3", ([[1.0, 2.0]], wrong), {"axis": 0}) for wrong in ([[1.0]], [1.0, 2.0], [])),
    Miss("C3", ([1.0], 1.0), {"axis": 0}),
)

ELSEWHERE = Elsewhere("torch.stack(xs, dim=axis)", "jax.numpy.stack")

op = composite(
    "stack",
    type_rule,
    program,
    (reshape, concat),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
