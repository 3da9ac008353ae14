"""Average the squared distance from the mean along some axes.

    z[i] = sum_k (x[i, k] - m[i])^2 / (n - correction),  m[i] = (sum_k x[i, k]) / n

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.
C3  the correction is an integer >= 0.
C4  more entries are reduced, n of them, than the correction takes away.

Reference: NumPy's var, whose ddof is the correction; this page exists in a test.

>>> from spec.tensor import tensor
>>> op(tensor([[1.0, 3.0], [2.0, 2.0]]), axes=(1,))
Tensor([2.0, 0.0])
"""

from __future__ import annotations

import math
from typing import Any

from spec.axes import BAD_AXES, check_axes, split_axes
from spec.composite import composite
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.broadcast_to import op as broadcast_to
from spec.ops.div import op as div
from spec.ops.mean import op as mean
from spec.ops.square import op as square
from spec.ops.sub import op as sub
from spec.ops.sum import op as sum_
from spec.refusals import Miss
from spec.shape import reduced, size

Axes = tuple[int, ...] | None


def type_rule(x: Type, *, axes: Axes = None, keepdims: bool = False, correction: int = 1) -> Type:
    """Accept distinct axes of x (C1, C2), longer (C4) than a correction (C3)."""
    gone = check_axes("variance_like", x, axes)
    if type(correction) is not int or correction < 0:
        raise refuse("variance_like C3", "the correction is an integer >= 0", repr(correction))
    number = size(tuple(x.shape[axis] for axis in gone))
    if number <= correction:
        came = f"{number} entries and a correction of {correction}"
        raise refuse("variance_like C4", "more entries are reduced than the correction", came)
    return Type(reduced(x.shape, gone, keepdims))


def program(
    ops: Any, x: Any, *, axes: Axes = None, keepdims: bool = False, correction: int = 1
) -> Any:
    """Subtract the mean, square, add up, and divide by what the correction leaves."""
    _, gone = split_axes(len(x.shape), axes)
    centre = ops.broadcast_to(ops.mean(x, axes=axes, keepdims=True), shape=x.shape)
    total = ops.sum(ops.square(ops.sub(x, centre)), axes=axes, keepdims=keepdims)
    number = size(tuple(x.shape[axis] for axis in gone))
    return ops.div(total, ops.constant(number - correction, total.shape, like=x))


EDGES = (
    Edge(([math.nan, 1.0],), (math.nan,), "IEEE", "NaN propagates"),
    Edge(([math.inf, 1.0],), (math.nan,), "IEEE", "an infinite mean has no distance"),
    Edge(([3.0, 3.0],), (0.0,), "IEEE", "equal entries do not vary"),
    Edge(([[3.0]],), ([[0.0]],), "IEEE", "nor does one", None, {"correction": 0, "axes": ()}),
    Edge(([2.0, 2.0],), (([0.0, 0.0],),), "IEEE", "nothing pulls at equal entries", cotangent=3.0),
)

REFUSED = (
    *BAD_AXES,
    *(Miss("C3", ([1.0, 2.0],), {"correction": wrong}) for wrong in (-1, True, 0.5)),
    Miss("C4", ([1.0],)),
    Miss("C4", ([[1.0, 2.0]],), {"axes": (1,), "correction": 2}),
    Miss("C4", ([],), {"correction": 0}),
)

op = composite(
    "variance_like",
    type_rule,
    program,
    (mean, broadcast_to, sub, square, sum_, div),
    edges=EDGES,
    refused=REFUSED,
    tried={"correction": (1, 0, 2)},
    elsewhere=Elsewhere(
        "torch.var(x, dim=axes, correction=correction, keepdim=keepdims)", "jax.numpy.var"
    ),
)
value = op.value
