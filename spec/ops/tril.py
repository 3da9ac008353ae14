"""Keep the lower triangle of matrices.

    z[i, j, k] = x[i, j, k] if k - j <= diagonal else 0

C1  there are two axes at least; the last two are rows and columns.
C2  the diagonal is an integer.

Diagonal 0 is the main one, which is kept; a positive one lies above it, a negative one below.
What is not kept is exactly 0, whatever stood there, NaN included. The transpose keeps the same.

Reference: NumPy's tril, PyTorch's tril.

>>> from spec.tensor import tensor
>>> op(tensor([[1, 2, 3], [4, 5, 6]])), op(tensor([[1, 2, 3], [4, 5, 6]]), diagonal=1)
(Tensor([[1, 0, 0], [4, 5, 0]]), Tensor([[1, 2, 0], [4, 5, 6]]))
>>> op.vjp((tensor([[1, 2], [3, 4]]),), tensor([[5, 6], [7, 8]]))
(Tensor([[5, 0], [7, 8]]),)
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.ops.triu import BAD_TRIANGLES, check_triangle
from spec.scalar import less, select, zero_like
from spec.shape import Shape
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(x: Type, *, diagonal: int = 0) -> Type:
    """Accept matrices (C1) and an integer (C2)."""
    check_triangle("tril", x, diagonal)
    return x


def value(x: Tensor[A, *tuple[Any, ...]], *, diagonal: int = 0) -> Tensor[A, *tuple[Any, ...]]:
    """Put zeros above the diagonal."""

    def entry(*i: Any) -> A:
        return select(less(diagonal, i[-1] - i[-2]), zero_like(x[i]), x[i])

    return tabulate(x.shape, entry)


def transpose(cotangent: AnyTensor, source: Shape, *, diagonal: int = 0) -> AnyTensor:
    """Put zeros in the same places."""
    del source
    return value(cotangent, diagonal=diagonal)


EDGES = (
    Edge(([[], []],), ([[], []],), "IEEE", "a matrix without columns"),
    Edge(
        ([[math.nan, math.nan], [-0.0, math.inf]],),
        ([[math.nan, 0.0], [-0.0, math.inf]],),
        "CHOICE",
        "what is not kept is 0, whatever stood there",
    ),
    Edge(
        ([[1.0, 2.0], [3.0, 4.0]],),
        (([[0.0, 0.0], [math.inf, 0.0]],),),
        "CHOICE",
        "and receives 0, whatever came back",
        cotangent=[[math.inf, math.nan], [math.inf, -math.inf]],
        attributes={"diagonal": -1},
    ),
)

ELSEWHERE = Elsewhere("torch.tril(x, diagonal=diagonal)", "jax.numpy.tril")

op = linear(
    "tril", type_rule, value, transpose, edges=EDGES, refused=BAD_TRIANGLES, elsewhere=ELSEWHERE
)
