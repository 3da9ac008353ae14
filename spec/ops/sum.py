"""Add the entries of a tensor along some axes.

    z[i] = sum_k x[i, k]        (k runs over the reduced axes)

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.

axes=None reduces all axes; keepdims=True leaves an extent of 1 in place of each.
An empty sum is 0.
The transpose repeats the cotangent along the reduced axes: `sum` and `broadcast_to` are one page
read in two directions.

Reference: NumPy's sum, for axes and keepdims.

>>> from spec.tensor import tensor
>>> op(tensor([[1, 2], [3, 4]]), axes=(1,))
Tensor([3, 7])
>>> op.vjp((tensor([[1, 2], [3, 4]]),), tensor([1, 10]), axes=(1,))
(Tensor([[1, 1], [10, 10]]),)
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias, TypeVar, overload

from spec.axes import BAD_AXES, check_axes, kept_index, reduction, split_axes
from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.scalar import sum_over
from spec.shape import Shape, reduced
from spec.tensor import Tensor, tabulate

A = TypeVar("A")
L = TypeVar("L")
M = TypeVar("M")
N = TypeVar("N")

# Up to rank 3, a sum over all axes, or over one that is written out, has a shape checkers know.
Lost: TypeAlias = Literal[False]
Kept: TypeAlias = Literal[True]
I1: TypeAlias = Literal[1]
Only: TypeAlias = tuple[Literal[0, -1]]
First2: TypeAlias = tuple[Literal[0, -2]]
Last2: TypeAlias = tuple[Literal[1, -1]]
First3: TypeAlias = tuple[Literal[0, -3]]
Mid3: TypeAlias = tuple[Literal[1, -2]]
Last3: TypeAlias = tuple[Literal[2, -1]]


def type_rule(x: Type, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Type:
    """Accept distinct axes of x (C1, C2)."""
    return Type(reduced(x.shape, check_axes("sum", x, axes), keepdims))


@overload
def value(
    x: Tensor[A, *tuple[Any, ...]], *, axes: None = None, keepdims: Lost = False
) -> Tensor[A]: ...
@overload
def value(x: Tensor[A, N], *, axes: Only, keepdims: Lost = False) -> Tensor[A]: ...
@overload
def value(x: Tensor[A, N], *, axes: Only, keepdims: Kept) -> Tensor[A, I1]: ...
@overload
def value(x: Tensor[A, M, N], *, axes: First2, keepdims: Lost = False) -> Tensor[A, N]: ...
@overload
def value(x: Tensor[A, M, N], *, axes: Last2, keepdims: Lost = False) -> Tensor[A, M]: ...
@overload
def value(x: Tensor[A, M, N], *, axes: First2, keepdims: Kept) -> Tensor[A, I1, N]: ...
@overload
def value(x: Tensor[A, M, N], *, axes: Last2, keepdims: Kept) -> Tensor[A, M, I1]: ...
@overload
def value(x: Tensor[A, L, M, N], *, axes: First3, keepdims: Lost = False) -> Tensor[A, M, N]: ...
@overload
def value(x: Tensor[A, L, M, N], *, axes: Mid3, keepdims: Lost = False) -> Tensor[A, L, N]: ...
@overload
def value(x: Tensor[A, L, M, N], *, axes: Last3, keepdims: Lost = False) -> Tensor[A, L, M]: ...
@overload
def value(x: Tensor[A, L, M, N], *, axes: First3, keepdims: Kept) -> Tensor[A, I1, M, N]: ...
@overload
def value(x: Tensor[A, L, M, N], *, axes: Mid3, keepdims: Kept) -> Tensor[A, L, I1, N]: ...
@overload
def value(x: Tensor[A, L, M, N], *, axes: Last3, keepdims: Kept) -> Tensor[A, L, M, I1]: ...
@overload
def value(
    x: Tensor[A, *tuple[Any, ...]], *, axes: tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor[A, *tuple[Any, ...]]: ...
def value(
    x: Tensor[A, *tuple[Any, ...]], *, axes: tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor[A, *tuple[Any, ...]]:
    """Add the entries along the axes."""
    return reduction(sum_over, x, axes, keepdims)


def transpose(
    cotangent: AnyTensor,
    shape: Shape,
    *,
    axes: tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> AnyTensor:
    """Repeat the cotangent along the reduced axes."""
    kept, _ = split_axes(len(shape), axes)
    return tabulate(shape, lambda *i: cotangent[kept_index(i, kept, keepdims)])


EDGES = (
    Edge(([math.inf, -math.inf],), (math.nan,), "IEEE", "opposite infinities have no sum"),
    Edge(([],), (0.0,), "IEEE", "an empty sum is 0"),
    Edge(([[], []],), ([0.0, 0.0],), "IEEE", "empty rows sum to 0", attributes={"axes": (1,)}),
    Edge(([[3.0]],), ([[3.0]],), "IEEE", "one term is itself", attributes={"keepdims": True}),
)

REFUSED = BAD_AXES

ELSEWHERE = Elsewhere("torch.sum(x, dim=axes, keepdim=keepdims)", "jax.numpy.sum")

op = linear("sum", type_rule, value, transpose, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE)
