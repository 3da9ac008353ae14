"""Reorder the axes of a tensor.

    z[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...]

C1  axes names every axis of x exactly once; negative axes count from the back.

Reference: PyTorch's permute, NumPy's transpose.

>>> from spec.tensor import tensor
>>> op(tensor([[1, 2, 3]]), axes=(1, 0))
Tensor([[1], [2], [3]])
"""

from __future__ import annotations

from typing import Any, TypeVar

from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.shape import Shape, normalize_axis
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(x: Type, *, axes: tuple[int, ...]) -> Type:
    """Accept a permutation of the axes (C1)."""
    rank = len(x.shape)
    normal = [normalize_axis(axis, rank) for axis in axes]
    if None in normal or len(normal) != rank or len(set(normal)) != rank:
        rule = f"axes names each of the {rank} axes exactly once"
        raise refuse("permute C1", rule, f"{tuple(axes)} for {x}")
    return Type(tuple(x.shape[axis % rank] for axis in axes))


def value(x: Tensor[A, *tuple[Any, ...]], *, axes: tuple[int, ...]) -> Tensor[A, *tuple[Any, ...]]:
    """Read x with its axes in the new order."""
    order = [axis % x.rank for axis in axes]
    place = {axis: position for position, axis in enumerate(order)}

    def entry(*index: Any) -> A:
        return x[tuple(index[place[axis]] for axis in range(x.rank))]

    return tabulate(tuple(x.shape[axis] for axis in order), entry)


def transpose(cotangent: AnyTensor, source: Shape, *, axes: tuple[int, ...]) -> AnyTensor:
    """Permute back."""
    rank = len(source)
    order = [axis % rank for axis in axes]
    return value(cotangent, axes=tuple(order.index(axis) for axis in range(rank)))


EDGES = (
    Edge(([[[], []]],), ([[[]], [[]]],), "IEEE", "nothing to move", attributes={"axes": (1, 0, 2)}),
    Edge((-0.0,), (-0.0,), "IEEE", "a scalar has no axes", attributes={"axes": ()}),
)

REFUSED = tuple(
    Miss("C1", ([[1.0, 2.0], [3.0, 4.0]],), {"axes": axes})
    for axes in ((0,), (0, 0), (0, 2), (1, -1), (0, 1, 1))
)

ELSEWHERE = Elsewhere("torch.permute(x, dims=axes)", "jax.numpy.permute_dims")

op = linear(
    "permute", type_rule, value, transpose, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE
)
