"""Take the smallest entry along some axes.

    z[i] = min_k x[i, k] = -max_k -x[i, k]        (k runs over the reduced axes)

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.
C3  no reduced axis is empty: nothing has no smallest entry.

Ties share tangent and cotangent equally, and NaN propagates, as on the page of `max`.

Reference: PyTorch's amin, for values and ties.

>>> from spec.tensor import tensor
>>> op(tensor([[1.0, 5.0], [7.0, 7.0]]), axes=(1,))
Tensor([1.0, 7.0])
>>> op.vjp((tensor([[1.0, 5.0], [7.0, 7.0]]),), tensor([1.0, 1.0]), axes=(1,))
(Tensor([[1.0, 0.0], [0.5, 0.5]]),)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from spec.axes import NOT_FULL_AXES, check_full_axes
from spec.kinds import irregular
from spec.op import AnyTensor, Edge, Elsewhere, Type
from spec.ops.max import op as max_
from spec.shape import reduced
from spec.tensor import Tensor

A = TypeVar("A")
Axes = tuple[int, ...] | None


def type_rule(x: Type, *, axes: Axes = None, keepdims: bool = False) -> Type:
    """Accept distinct axes of x (C1, C2), none of them empty (C3)."""
    return Type(reduced(x.shape, check_full_axes("min", x, axes), keepdims))


def value(
    x: Tensor[A, *tuple[Any, ...]], *, axes: Axes = None, keepdims: bool = False
) -> Tensor[A, *tuple[Any, ...]]:
    """Take the smallest entry along the axes."""
    smallest: Tensor[A, *tuple[Any, ...]] = max_.value(
        x.map(_negated), axes=axes, keepdims=keepdims
    ).map(_negated)
    return smallest


def _negated(a: Any) -> Any:
    return -a


def jvp(
    inputs: Sequence[AnyTensor],
    tangents: Sequence[AnyTensor | None],
    *,
    axes: Axes = None,
    keepdims: bool = False,
) -> AnyTensor:
    """Average the tangents of the entries that tie for the smallest: both signs cancel."""
    return max_.jvp((inputs[0].map(_negated),), tangents, axes=axes, keepdims=keepdims)


def vjp(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, axes: Axes = None, keepdims: bool = False
) -> tuple[AnyTensor | None, ...]:
    """Divide the cotangent equally among the entries that tie for the smallest."""
    return max_.vjp((inputs[0].map(_negated),), cotangent, axes=axes, keepdims=keepdims)


EDGES = (
    Edge(([1.0, math.nan],), (math.nan,), "CHOICE", "NaN propagates"),
    Edge(([math.inf, math.inf],), (math.inf,), "IEEE", "the smallest of equal infinities"),
    Edge(([3.0],), (([5.0],),), "IEEE", "one entry is the smallest", cotangent=5.0),
    Edge(([2.0, 2.0],), (([2.0, 2.0],),), "CHOICE", "ties share equally", cotangent=4.0),
    Edge(([2.0, 1.0],), (([0.0, math.inf],),), "CHOICE", "the others get exactly 0", math.inf),
    Edge(([],), ([],), "IEEE", "no axis reduced, nothing asked", attributes={"axes": ()}),
)

ELSEWHERE = Elsewhere("torch.amin(x, dim=axes, keepdim=keepdims)", "jax.numpy.min")

op = irregular(
    "min", type_rule, value, jvp, vjp, edges=EDGES, refused=NOT_FULL_AXES, elsewhere=ELSEWHERE
)
