"""Measure lengths along some axes, by squares or by absolute values.

    z[i] = sqrt(sum_k x[i, k]^2)    for ord = 2
    z[i] = sum_k |x[i, k]|          for ord = 1

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.
C3  ord is 1 or 2.

The squares of ord 2 are formed of x / m, for the largest magnitude m of the slice, and the root is
multiplied by m: that changes no value, and keeps every square in range, so that a norm is lost
only where it is out of range itself. An m that is 0 or infinite divides nothing.
The rate of ord 2 is x / z, and 0 where the norm is 0 (CHOICE); that of ord 1 is the sign of x, 0
at 0 and for NaN (CHOICE). A norm of nothing is 0.

Reference: PyTorch's linalg.vector_norm, which squares entries as they are.

>>> from spec.tensor import tensor
>>> op(tensor([[3.0, 4.0], [0.0, -2.0]]), axes=(1,)), op(tensor([3.0, -4.0]), ord=1)
(Tensor([5.0, 2.0]), Tensor(7.0))
>>> op.vjp((tensor([[3.0, 4.0], [0.0, 0.0]]),), tensor([5.0, 5.0]), axes=(1,))
(Tensor([[3.0, 4.0], [0.0, 0.0]]),)
"""

# This file is longer than the guide because two orders are told in one place.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from spec.axes import BAD_AXES, check_axes, kept_index, reduction, split_axes
from spec.kinds import irregular
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse, zeros_like
from spec.refusals import Miss
from spec.scalar import (
    absolute,
    divide,
    is_zero,
    less,
    max_over,
    select,
    sqrt,
    square,
    stop,
    sum_over,
    zero_like,
)
from spec.shape import reduced
from spec.tensor import Tensor, tabulate, zip_map

A = TypeVar("A")
Axes = tuple[int, ...] | None


def type_rule(x: Type, *, ord: int = 2, axes: Axes = None, keepdims: bool = False) -> Type:
    """Accept distinct axes of x (C1, C2), and one of two orders (C3)."""
    normal = check_axes("norm", x, axes)
    if isinstance(ord, bool) or ord not in (1, 2):
        raise refuse("norm C3", "ord is 1 or 2", repr(ord))
    return Type(reduced(x.shape, normal, keepdims))


def value(
    x: Tensor[A, *tuple[Any, ...]], *, ord: int = 2, axes: Axes = None, keepdims: bool = False
) -> Tensor[A, *tuple[Any, ...]]:
    """Add absolute values along the axes, or scaled squares, of which take the root."""
    sizes, (kept, gone) = x.map(absolute), split_axes(x.rank, axes)
    if ord == 1 or any(x.shape[axis] == 0 for axis in gone):
        total: Tensor[A, *tuple[Any, ...]] = reduction(sum_over, sizes, axes, keepdims)
        return total
    scale: AnyTensor = reduction(max_over, sizes, axes, keepdims).map(_scale)
    parts: AnyTensor = tabulate(
        x.shape, lambda *i: square(divide(x[i], scale[kept_index(i, kept, keepdims)]))
    )
    return zip_map(_root, reduction(sum_over, parts, axes, keepdims), scale)


def _scale(largest: Any) -> Any:
    """Return what divides a slice: its largest magnitude, or 1 if that is 0, or is not finite."""
    m = stop(largest)
    return select(is_zero(m - m), select(is_zero(m), 1, m), 1)


def _root(total: Any, scale: Any) -> Any:
    """Take the root of a sum, but of 0, from where no tangent leads on."""
    root = scale * sqrt(select(is_zero(total), 1, total))
    return select(is_zero(total), zero_like(total), root)


def _signed(a: Any, direction: Any) -> Any:
    """Multiply a direction by the sign of a number, which NaN has not."""
    return select(less(a, 0), -direction, select(less(0, a), direction, zero_like(direction)))


def _moved(a: Any, direction: Any, z: Any) -> Any:
    """Multiply a direction by the share of an entry in the norm."""
    share = divide(a, select(is_zero(z), 1, z)) * direction
    return select(is_zero(z), zero_like(direction), share)


def jvp(
    inputs: Sequence[AnyTensor],
    tangents: Sequence[AnyTensor | None],
    *,
    ord: int = 2,
    axes: Axes = None,
    keepdims: bool = False,
) -> AnyTensor:
    """Add the tangents up, each by the sign of its entry, or by its share of the norm."""
    (x,), (tangent,) = inputs, tangents
    z = value(x, ord=ord, axes=axes, keepdims=keepdims)
    if tangent is None:
        return zeros_like(z)
    spread = _spread(z, x, axes, keepdims)
    moved = zip_map(_signed, x, tangent) if ord == 1 else zip_map(_moved, x, tangent, spread)
    result: AnyTensor = reduction(sum_over, moved, axes, keepdims)
    return result


def _spread(z: AnyTensor, x: AnyTensor, axes: Axes, keepdims: bool) -> AnyTensor:
    kept, _ = split_axes(x.rank, axes)
    return tabulate(x.shape, lambda *i: z[kept_index(i, kept, keepdims)])


def vjp(
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    ord: int = 2,
    axes: Axes = None,
    keepdims: bool = False,
) -> tuple[AnyTensor | None, ...]:
    """Give each entry the cotangent by its sign, or divided by the norm, times the entry."""
    (x,) = inputs
    g = _spread(cotangent, x, axes, keepdims)
    if ord == 1:
        return (zip_map(_signed, x, g),)
    z = _spread(value(x, axes=axes, keepdims=keepdims), x, axes, keepdims)
    return (zip_map(_moved, x, g, z),)


_ZEROS = ([0.0, 0.0],)
EDGES = (
    Edge(([math.inf, math.nan],), (math.nan,), "IEEE", "NaN propagates"),
    Edge(([-math.inf, 1.0],), (math.inf,), "IEEE", "an infinite entry"),
    Edge(([],), (0.0,), "IEEE", "nothing has no length"),
    Edge(_ZEROS, (([0.0, 0.0],),), "CHOICE", "the rate at 0 is 0", cotangent=1.0),
    Edge(_ZEROS, (([0.0, 0.0],),), "CHOICE", "no sign at 0", 1.0, {"ord": 1}),
    Edge(([math.nan],), (([0.0],),), "CHOICE", "NaN has no side", 1.0, {"ord": 1}),
)
REFUSED = (*BAD_AXES, *(Miss("C3", ([1.0],), {"ord": ord}) for ord in (0, 3, -1, True, 1.5)))
TRIED = {"ord": (2, 1)}
ELSEWHERE = Elsewhere(
    "torch.linalg.vector_norm(x, ord=ord, dim=axes, keepdim=keepdims)",
    "jax.numpy.linalg.vector_norm",
)

op = irregular(
    "norm",
    type_rule,
    value,
    jvp,
    vjp,
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
