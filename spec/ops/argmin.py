"""Find the place of the smallest entry, along one axis or in the whole tensor.

    z[i] = min { k : x[i, k] = min_j x[i, j] }        (k runs along the axis)

C1  the axis, if one is named, lies in [-rank, rank).
C2  what is searched is not empty: nothing has no smallest entry.

The first of a tie is meant, the first NaN where there is one, and places are counted in row-major
order without an axis, as on the page of `argmax`; the result is integers, which nothing moves.

Reference: PyTorch's argmin on a CPU, and NumPy's.

>>> from spec.tensor import tensor
>>> op(tensor([[1.0, 5.0], [7.0, 7.0]]), axis=1)
Tensor([0, 0])
"""

from __future__ import annotations

import math
from operator import neg

from spec.kinds import positions
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.ops.argmax import NOWHERE, searched
from spec.ops.argmax import op as argmax


def type_rule(x: Type, *, axis: int | None = None, keepdims: bool = False) -> Type:
    """Accept an axis of x, or none (C1), along which there are entries (C2)."""
    return searched("argmin", x, axis, keepdims)


def value(x: AnyTensor, *, axis: int | None = None, keepdims: bool = False) -> AnyTensor:
    """Find the largest of the opposites."""
    places: AnyTensor = argmax.value(x.map(neg), axis=axis, keepdims=keepdims)
    return places


EDGES = (
    Edge(([5.0, 2.0, 2.0],), (1,), "CHOICE", "the first of a tie"),
    Edge(([0.0, -0.0, 0.0],), (0,), "IEEE", "zeros of either sign are equal"),
    Edge(([9.0, math.nan, -math.inf],), (1,), "CHOICE", "the first NaN is the smallest, too"),
    Edge(([math.inf, math.inf],), (0,), "IEEE", "even of what is infinitely large"),
    Edge((3.0,), (0,), "IEEE", "of one number"),
    Edge(([[], []],), ([],), "IEEE", "columns of which there are none", attributes={"axis": 0}),
)

ELSEWHERE = Elsewhere("torch.argmin(x, dim=axis, keepdim=keepdims)", "jax.numpy.argmin")

op = positions("argmin", type_rule, value, edges=EDGES, refused=NOWHERE, elsewhere=ELSEWHERE)
