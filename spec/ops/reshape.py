"""Read the same entries, in row-major order, under another shape.

    z[unravel(k)] = x[unravel(k)]       for every row-major position k

C1  both shapes have the same size.
C2  every extent is an integer >= 0; there is no "-1, you count".

Reference: NumPy's reshape with order "C".

>>> from spec.tensor import tensor
>>> op(tensor([[1, 2, 3], [4, 5, 6]]), shape=(3, 2))
Tensor([[1, 2], [3, 4], [5, 6]])
"""

from __future__ import annotations

from typing import Any, TypeVar

from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.shape import Shape, is_extent, offset, size, unravel
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(x: Type, *, shape: Shape) -> Type:
    """Accept extents >= 0 (C2) of the same size (C1)."""
    if not all(is_extent(n) for n in shape):
        raise refuse("reshape C2", "every extent is an integer >= 0", tuple(shape))
    if size(x.shape) != size(tuple(shape)):
        came = f"{x} with {size(x.shape)} entries to {tuple(shape)} with {size(tuple(shape))}"
        raise refuse("reshape C1", "both shapes have the same size", came)
    return Type(tuple(shape))


def value(x: Tensor[A, *tuple[Any, ...]], *, shape: Shape) -> Tensor[A, *tuple[Any, ...]]:
    """Read the entries of x under the new shape."""
    target = tuple(shape)
    if x.shape == target:
        return x
    if all(isinstance(n, int) for n in (*x.shape, *target)):
        return Tensor(target, x.data)
    return tabulate(target, lambda *i: x[unravel(x.shape, offset(target, i))])


def transpose(cotangent: AnyTensor, source: Shape, *, shape: Shape) -> AnyTensor:
    """Read the cotangent under the input's shape."""
    del shape
    return value(cotangent, shape=source)


EDGES = (
    Edge(([[], []],), ([],), "IEEE", "nothing stays nothing", attributes={"shape": (0,)}),
    Edge(([-0.0],), (-0.0,), "IEEE", "moving keeps the sign of zero", attributes={"shape": ()}),
)

REFUSED = (
    Miss("C1", ([1.0, 2.0],), {"shape": (3,)}),
    Miss("C1", ([],), {"shape": ()}),
    *(Miss("C2", ([1.0, 2.0],), {"shape": shape}) for shape in ((-1,), (-1, -2), (2.0,))),
    Miss("C2", ([1.0],), {"shape": (True,)}),
)

ELSEWHERE = Elsewhere("torch.reshape(x, shape=shape)", "jax.numpy.reshape")

op = linear(
    "reshape", type_rule, value, transpose, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE
)
