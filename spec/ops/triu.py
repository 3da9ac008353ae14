"""Keep the upper triangle of matrices.

    z[i, j, k] = x[i, j, k] if k - j >= diagonal else 0

C1  there are two axes at least; the last two are rows and columns.
C2  the diagonal is an integer.

Diagonal 0 is the main one, which is kept; a positive one lies above it, a negative one below.
What is not kept is exactly 0, whatever stood there, NaN included. The transpose keeps the same.

Reference: NumPy's triu, PyTorch's triu.

>>> from spec.tensor import tensor
>>> op(tensor([[1, 2, 3], [4, 5, 6]])), op(tensor([[1, 2, 3], [4, 5, 6]]), diagonal=1)
(Tensor([[1, 2, 3], [0, 5, 6]]), Tensor([[0, 2, 3], [0, 0, 6]]))
>>> op.vjp((tensor([[1, 2], [3, 4]]),), tensor([[5, 6], [7, 8]]))
(Tensor([[5, 6], [0, 8]]),)
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.scalar import less, select, zero_like
from spec.shape import Shape
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def check_triangle(name: str, x: Type, diagonal: int) -> None:
    """Refuse what has no rows and columns (C1), and a diagonal that is no integer (C2)."""
    if len(x.shape) < 2:
        raise refuse(f"{name} C1", "there are two axes at least", x)
    if type(diagonal) is not int:
        raise refuse(f"{name} C2", "the diagonal is an integer", repr(diagonal))


BAD_TRIANGLES = (
    *(Miss("C1", (wrong,), {"diagonal": 0}) for wrong in ([1.0, 2.0], 1.0)),
    *(Miss("C2", ([[1.0, 2.0], [3.0, 4.0]],), {"diagonal": wrong}) for wrong in (0.0, True, None)),
)
"""Inputs and diagonals that check_triangle refuses."""


def type_rule(x: Type, *, diagonal: int = 0) -> Type:
    """Accept matrices (C1) and an integer (C2)."""
    check_triangle("triu", x, diagonal)
    return x


def value(x: Tensor[A, *tuple[Any, ...]], *, diagonal: int = 0) -> Tensor[A, *tuple[Any, ...]]:
    """Put zeros below the diagonal."""

    def entry(*i: Any) -> A:
        return select(less(i[-1] - i[-2], diagonal), zero_like(x[i]), x[i])

    return tabulate(x.shape, entry)


def transpose(cotangent: AnyTensor, source: Shape, *, diagonal: int = 0) -> AnyTensor:
    """Put zeros in the same places."""
    del source
    return value(cotangent, diagonal=diagonal)


EDGES = (
    Edge(([[], []],), ([[], []],), "IEEE", "a matrix without columns"),
    Edge(
        ([[math.nan, -0.0], [math.nan, math.inf]],),
        ([[math.nan, -0.0], [0.0, math.inf]],),
        "CHOICE",
        "what is not kept is 0, whatever stood there",
    ),
    Edge(
        ([[1.0, 2.0], [3.0, 4.0]],),
        (([[0.0, math.inf], [0.0, 0.0]],),),
        "CHOICE",
        "and receives 0, whatever came back",
        cotangent=[[math.inf, math.inf], [math.nan, -math.inf]],
        attributes={"diagonal": 1},
    ),
)

ELSEWHERE = Elsewhere("torch.triu(x, diagonal=diagonal)", "jax.numpy.triu")

op = linear(
    "triu", type_rule, value, transpose, edges=EDGES, refused=BAD_TRIANGLES, elsewhere=ELSEWHERE
)
