"""Repeat a tensor along axes of extent 1, and along new axes in front.

    z[..., i, j] = x[i, 0]      (here the last axis of x has extent 1)

C1  aligned right, every extent of x equals the target's or is 1, and the rank does not shrink.

Broadcasting is never implicit; its transpose is a sum over the repeated axes.

Reference: NumPy's broadcast_to.

>>> from spec.tensor import tensor
>>> op(tensor([[1], [2]]), shape=(2, 3))
Tensor([[1, 1, 1], [2, 2, 2]])
>>> op.vjp((tensor([5]),), tensor([[1], [2], [3]]), shape=(3, 1))
(Tensor([6]),)
"""

from __future__ import annotations

from typing import Any, TypeVar

from spec.axes import reduction
from spec.kinds import linear
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.scalar import sum_over
from spec.shape import Shape, broadcasts_to
from spec.tensor import Tensor, tabulate

A = TypeVar("A")


def type_rule(x: Type, *, shape: Shape) -> Type:
    """Accept a shape that x broadcasts to (C1)."""
    if not broadcasts_to(x.shape, tuple(shape)):
        rule = "aligned right, every extent equals the target's or is 1"
        raise refuse("broadcast_to C1", rule, f"{x} to {tuple(shape)}")
    return Type(tuple(shape))


def value(x: Tensor[A, *tuple[Any, ...]], *, shape: Shape) -> Tensor[A, *tuple[Any, ...]]:
    """Read, at each index of the target, the entry of x below it."""
    new = len(shape) - x.rank
    single = [extent == 1 for extent in x.shape]

    def entry(*index: Any) -> A:
        return x[tuple(0 if one else i for one, i in zip(single, index[new:], strict=True))]

    return tabulate(tuple(shape), entry)


def transpose(cotangent: AnyTensor, source: Shape, *, shape: Shape) -> AnyTensor:
    """Sum over every axis along which the value repeated."""
    new = len(shape) - len(source)
    added = tuple(range(new))
    widened = tuple(new + k for k, n in enumerate(source) if n == 1 and shape[new + k] != 1)
    if not added and not widened:
        return cotangent
    total: AnyTensor = reduction(sum_over, cotangent, added + widened, keepdims=True)
    return tabulate(source, lambda *i: total[(0,) * new + i])


EDGES = (
    Edge(([],), ([[], []],), "IEEE", "an empty axis stays empty", attributes={"shape": (2, 0)}),
    Edge((2.0,), ([2.0, 2.0],), "IEEE", "a scalar fills any shape", attributes={"shape": (2,)}),
    Edge(
        ([1.0],),
        (([0.0],),),
        "IEEE",
        "repeated no times, an entry has no effect",
        cotangent=[],
        attributes={"shape": (0,)},
    ),
)

REFUSED = (
    *(Miss("C1", ([1.0, 2.0],), {"shape": shape}) for shape in ((3,), (2, 1), ())),
    Miss("C1", ([[1.0, 2.0], [3.0, 4.0]],), {"shape": (2,)}),
    Miss("C1", ([1.0],), {"shape": (-1,)}),
    Miss("C1", (1.0,), {"shape": (2, -1)}),
)

ELSEWHERE = Elsewhere("torch.broadcast_to(x, size=shape)", "jax.numpy.broadcast_to")

op = linear(
    "broadcast_to", type_rule, value, transpose, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE
)
