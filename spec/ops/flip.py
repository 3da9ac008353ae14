"""Reverse the order of the entries along some axes.

    z[i, j, k] = x[i, n - 1 - j, k]     (axes = (1,), whose extent is n)

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.

axes = None means all of them, and no axes leave x as it is. The transpose reverses once more.

Reference: NumPy's flip, PyTorch's flip.

>>> from spec.tensor import tensor
>>> op(tensor([[1, 2, 3], [4, 5, 6]]), axes=(1,))
Tensor([[3, 2, 1], [6, 5, 4]])
>>> op.vjp((tensor([1, 2, 3]),), tensor([7, 8, 9]))
(Tensor([9, 8, 7]),)
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from spec.axes import BAD_AXES, Axes, check_axes, split_axes
from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.shape import Shape
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(x: Type, *, axes: Axes | None = None) -> Type:
    """Accept distinct axes (C1, C2)."""
    check_axes("flip", x, axes)
    return x


def value(
    x: Tensor[A, *tuple[Any, ...]], *, axes: Axes | None = None
) -> Tensor[A, *tuple[Any, ...]]:
    """Read x from the end along the axes."""
    _, turned = split_axes(x.rank, axes)

    def entry(*i: Any) -> A:
        return x[tuple(x.shape[k] - 1 - j if k in turned else j for k, j in enumerate(i))]

    return tabulate(x.shape, entry)


def transpose(cotangent: AnyTensor, source: Shape, *, axes: Axes | None = None) -> AnyTensor:
    """Read the cotangent from the end."""
    del source
    return value(cotangent, axes=axes)


EDGES = (
    Edge(([[], []],), ([[], []],), "IEEE", "nothing to reverse", attributes={"axes": (1,)}),
    Edge((-0.0,), (-0.0,), "IEEE", "a scalar has no axes"),
    Edge(
        ([-0.0, math.nan, math.inf],),
        ([math.inf, math.nan, -0.0],),
        "IEEE",
        "moving keeps NaN, infinities and the sign of zero",
        attributes={"axes": (0,)},
    ),
    Edge(
        ([1.0, 2.0],), ([1.0, 2.0],), "CHOICE", "no axes reverse nothing", attributes={"axes": ()}
    ),
)

ELSEWHERE = Elsewhere("torch.flip(x, dims=axes)", "jax.numpy.flip")

op = linear("flip", type_rule, value, transpose, edges=EDGES, refused=BAD_AXES, elsewhere=ELSEWHERE)
