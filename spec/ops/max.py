"""Take the largest entry along some axes.

    z[i] = max_k x[i, k]        (k runs over the reduced axes)

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.
C3  no reduced axis is empty: nothing has no largest entry.

Convention (CHOICE): entries that tie for the largest share tangent and cotangent equally, so that
the derivative does not depend on the order of the entries; off the ties it is the true one.
NaN propagates, and then every NaN entry counts as a tie.
An entry that is not the largest contributes exactly 0, whatever tangent or cotangent there is.

Reference: PyTorch's amax, for values and ties.

>>> from spec.tensor import tensor
>>> op(tensor([[1.0, 5.0], [7.0, 7.0]]), axes=(1,))
Tensor([5.0, 7.0])
>>> op.vjp((tensor([[1.0, 5.0], [7.0, 7.0]]),), tensor([1.0, 1.0]), axes=(1,))
(Tensor([[0.0, 1.0], [0.5, 0.5]]),)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from spec.axes import NOT_FULL_AXES, check_full_axes, kept_index, reduction, split_axes
from spec.kinds import chosen, irregular
from spec.op import AnyTensor, Edge, Elsewhere, Type, zeros_like
from spec.scalar import divide, equal, is_nan, max_over, select, sum_over
from spec.shape import reduced
from spec.tensor import Tensor, tabulate

A = TypeVar("A")
Axes = tuple[int, ...] | None


def type_rule(x: Type, *, axes: Axes = None, keepdims: bool = False) -> Type:
    """Accept distinct axes of x (C1, C2), none of them empty (C3)."""
    return Type(reduced(x.shape, check_full_axes("max", x, axes), keepdims))


def value(
    x: Tensor[A, *tuple[Any, ...]], *, axes: Axes = None, keepdims: bool = False
) -> Tensor[A, *tuple[Any, ...]]:
    """Take the largest entry along the axes."""
    return reduction(max_over, x, axes, keepdims)


def _share(x: AnyTensor, axes: Axes) -> AnyTensor:
    """Return each entry's share: 1 over the number of ties where it is largest, else 0."""
    kept, _ = split_axes(x.rank, axes)
    largest = value(x, axes=axes)

    def is_largest(*i: Any) -> Any:
        same = select(equal(x[i], largest[kept_index(i, kept, False)]), 1, 0)
        return select(is_nan(x[i]), 1, same)

    ties: AnyTensor = tabulate(x.shape, is_largest)
    count: AnyTensor = reduction(sum_over, ties, axes, False)
    return tabulate(x.shape, lambda *i: divide(ties[i], count[kept_index(i, kept, False)]))


def jvp(
    inputs: Sequence[AnyTensor],
    tangents: Sequence[AnyTensor | None],
    *,
    axes: Axes = None,
    keepdims: bool = False,
) -> AnyTensor:
    """Average the tangents of the entries that tie for the largest."""
    (x,), (tangent,) = inputs, tangents
    if tangent is None:
        return zeros_like(value(x, axes=axes, keepdims=keepdims))
    share = _share(x, axes)
    moved: AnyTensor = tabulate(x.shape, lambda *i: chosen(tangent[i], share[i]))
    result: AnyTensor = reduction(sum_over, moved, axes, keepdims)
    return result


def vjp(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, axes: Axes = None, keepdims: bool = False
) -> tuple[AnyTensor | None, ...]:
    """Divide the cotangent equally among the entries that tie for the largest."""
    (x,) = inputs
    kept, _ = split_axes(x.rank, axes)
    share = _share(x, axes)
    back: AnyTensor = tabulate(
        x.shape, lambda *i: chosen(cotangent[kept_index(i, kept, keepdims)], share[i])
    )
    return (back,)


EDGES = (
    Edge(([1.0, math.nan],), (math.nan,), "CHOICE", "NaN propagates"),
    Edge(([-math.inf, -math.inf],), (-math.inf,), "IEEE", "the largest of equal infinities"),
    Edge(([3.0],), (([5.0],),), "IEEE", "one entry is the largest", cotangent=5.0),
    Edge(([2.0, 2.0],), (([2.0, 2.0],),), "CHOICE", "ties share equally", cotangent=4.0),
    Edge(([1.0, 2.0],), (([0.0, math.inf],),), "CHOICE", "the others get exactly 0", math.inf),
    Edge(([],), ([],), "IEEE", "no axis reduced, nothing asked", attributes={"axes": ()}),
)

ELSEWHERE = Elsewhere("torch.amax(x, dim=axes, keepdim=keepdims)", "jax.numpy.max")

op = irregular(
    "max", type_rule, value, jvp, vjp, edges=EDGES, refused=NOT_FULL_AXES, elsewhere=ELSEWHERE
)
