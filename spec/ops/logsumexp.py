"""Take the logarithm of the sum of the exponentials along some axes.

    z[i] = m[i] + ln sum_k e^(x[i, k] - m[i]),    m[i] = max_k x[i, k]

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.
C3  no reduced axis is empty: nothing has no largest entry.

The shift by the maximum changes no value, and is part of the definition because it is what keeps
every exponential in range. An infinite maximum is no shift, so that a slice of minus infinity,
whose sum is 0, gives minus infinity, and one that holds infinity gives infinity.

The derivative is the softmax. A slice of minus infinity has none; it moves nothing and receives
exactly 0 (CHOICE). Where infinity is the largest, the others receive 0, and it receives NaN.

Reference: PyTorch's logsumexp, but for the gradient of minus infinity, which is NaN there, and for
an empty slice, which gives minus infinity there.

>>> from spec.tensor import tensor
>>> op(tensor([[0.0, -1000.0], [1000.0, 0.0]]), axes=(1,))
Tensor([0.0, 1000.0])
>>> op.vjp((tensor([5.0, 5.0]),), tensor(2.0))
(Tensor([1.0, 1.0]),)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from spec.axes import NOT_FULL_AXES, check_full_axes, kept_index, reduction, split_axes
from spec.kinds import irregular
from spec.op import AnyTensor, Edge, Type, zeros_like
from spec.scalar import divide, exp, is_zero, log, max_over, select, stop, sum_over, zero_like
from spec.shape import reduced
from spec.tensor import Tensor, tabulate, zip_map

A = TypeVar("A")
Axes = tuple[int, ...] | None


def type_rule(x: Type, *, axes: Axes = None, keepdims: bool = False) -> Type:
    """Accept distinct axes of x (C1, C2), none of them empty (C3)."""
    return Type(reduced(x.shape, check_full_axes("logsumexp", x, axes), keepdims))


def _powers(x: AnyTensor, shift: AnyTensor, axes: Axes, keepdims: bool) -> AnyTensor:
    kept, _ = split_axes(x.rank, axes)
    return tabulate(x.shape, lambda *i: exp(x[i] - shift[kept_index(i, kept, keepdims)]))


def _sums(x: AnyTensor, axes: Axes, keepdims: bool) -> tuple[AnyTensor, AnyTensor, AnyTensor]:
    """Return the largest entries, the shifts, and the sums of the shifted exponentials."""
    largest: AnyTensor = reduction(max_over, x, axes, keepdims).map(stop)
    # Only of a finite number is the difference to itself 0.
    shift = largest.map(lambda m: select(is_zero(m - m), m, zero_like(m)))
    total: AnyTensor = reduction(sum_over, _powers(x, shift, axes, keepdims), axes, keepdims)
    return largest, shift, total


def value(
    x: Tensor[A, *tuple[Any, ...]], *, axes: Axes = None, keepdims: bool = False
) -> Tensor[A, *tuple[Any, ...]]:
    """Add the exponentials along the axes, and take the logarithm."""
    _, shift, total = _sums(x, axes, keepdims)
    return zip_map(lambda t, m: log(t) + m, total, shift)


def _shares(x: AnyTensor, axes: Axes, keepdims: bool) -> tuple[AnyTensor, AnyTensor]:
    """Return exponentials and their sums; those below an infinite largest are 0."""
    largest, _, total = _sums(x, axes, keepdims)
    shift = zip_map(lambda t, m: select(is_zero(t), zero_like(m), m), total, largest)
    return _powers(x, shift, axes, keepdims), total


def _quotient(a: Any, total: Any) -> Any:
    return select(is_zero(total), zero_like(a), divide(a, total))


def jvp(
    inputs: Sequence[AnyTensor],
    tangents: Sequence[AnyTensor | None],
    *,
    axes: Axes = None,
    keepdims: bool = False,
) -> AnyTensor:
    """Weigh the tangents by the exponentials, and divide by the sum of these."""
    (x,), (tangent,) = inputs, tangents
    if tangent is None:
        return zeros_like(value(x, axes=axes, keepdims=keepdims))
    powers, total = _shares(x, axes, keepdims)
    moved = zip_map(lambda e, t: e * t, powers, tangent)
    return zip_map(_quotient, reduction(sum_over, moved, axes, keepdims), total)


def vjp(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, axes: Axes = None, keepdims: bool = False
) -> tuple[AnyTensor | None, ...]:
    """Divide the cotangent by the sum, and multiply by each exponential."""
    (x,) = inputs
    kept, _ = split_axes(x.rank, axes)
    powers, total = _shares(x, axes, keepdims)
    rate = zip_map(_quotient, cotangent, total)
    return (tabulate(x.shape, lambda *i: powers[i] * rate[kept_index(i, kept, keepdims)]),)


_MASKED, _INFINITE = ([-math.inf, -math.inf],), ([math.inf, 1000.0],)
EDGES = (
    Edge(_MASKED, (-math.inf,), "IEEE", "the logarithm of 0"),
    Edge(_INFINITE, (math.inf,), "IEEE", "an infinite term"),
    Edge(([math.nan, -math.inf],), (math.nan,), "IEEE", "NaN propagates"),
    Edge(([3.0, -math.inf],), (3.0,), "IEEE", "one term is its own sum"),
    Edge(_MASKED, (([0.0, 0.0],),), "CHOICE", "minus infinity receives nothing", cotangent=3.0),
    Edge(_INFINITE, (([math.nan, 0.0],),), "IEEE", "infinity over itself", cotangent=3.0),
    Edge(([7.0],), (([5.0],),), "IEEE", "one entry takes all", cotangent=5.0),
)

op = irregular("logsumexp", type_rule, value, jvp, vjp, edges=EDGES, refused=NOT_FULL_AXES)
