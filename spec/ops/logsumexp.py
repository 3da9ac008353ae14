"""Take the logarithm of the sum of the exponentials along some axes.

    z[i] = m[i] + ln sum_k e^(x[i, k] - m[i]),    m[i] = max_k x[i, k]

C1  every axis lies in [-rank, rank).
C2  the axes are distinct.
C3  no reduced axis is empty: nothing has no largest entry.

An infinite maximum is no shift: minus infinities alone, whose sum is 0, give minus infinity.
The derivative is the softmax; a slice of minus infinity receives exactly 0 (CHOICE; PyTorch: NaN).

>>> from spec.tensor import tensor
>>> op(tensor([[0.0, -1000.0], [1000.0, 0.0]]), axes=(1,))
Tensor([0.0, 1000.0])
>>> op.vjp((tensor([5.0, 5.0]),), tensor(2.0))
(Tensor([1.0, 1.0]),)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Any, TypeVar

from spec.axes import NOT_FULL_AXES, check_full_axes, kept_index, reduction, split_axes
from spec.kinds import irregular
from spec.op import AnyTensor, Edge, Elsewhere, Type, zeros_like
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
    shift = largest.map(lambda m: select(is_zero(m - m), m, 0))
    total: AnyTensor = reduction(sum_over, _powers(x, shift, axes, keepdims), axes, keepdims)
    return largest, shift, total


def value(
    x: Tensor[A, *tuple[Any, ...]], *, axes: Axes = None, keepdims: bool = False
) -> Tensor[A, *tuple[Any, ...]]:
    """Add the exponentials along the axes, and take the logarithm."""
    return zip_map(_logarithm, *_sums(x, axes, keepdims)[1:])


def _logarithm(shift: Any, total: Any) -> Any:
    return log(total) + shift


def _shares(x: AnyTensor, axes: Axes, keepdims: bool) -> tuple[AnyTensor, AnyTensor]:
    """Return exponentials and their sums; those below an infinite largest are 0."""
    largest, _, total = _sums(x, axes, keepdims)
    shift: AnyTensor = zip_map(_unless_empty, largest, total)
    return _powers(x, shift, axes, keepdims), total


def _unless_empty(a: Any, total: Any) -> Any:
    return select(is_zero(total), zero_like(a), a)


def _quotient(a: Any, total: Any) -> Any:
    return _unless_empty(divide(a, total), total)


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
    moved: AnyTensor = zip_map(mul, powers, tangent)
    return zip_map(_quotient, reduction(sum_over, moved, axes, keepdims), total)


def vjp(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, axes: Axes = None, keepdims: bool = False
) -> tuple[AnyTensor | None, ...]:
    """Divide the cotangent by the sum, and multiply by each exponential."""
    (x,), (kept, _) = inputs, split_axes(inputs[0].rank, axes)
    powers, total = _shares(x, axes, keepdims)
    rate = zip_map(_quotient, cotangent, total)
    return (tabulate(x.shape, lambda *i: powers[i] * rate[kept_index(i, kept, keepdims)]),)


_MASKED, _INFINITE = ([-math.inf, -math.inf],), ([math.inf, 1000.0],)
EDGES = (
    Edge(_MASKED, (-math.inf,), "IEEE", "the logarithm of 0"),
    Edge(_INFINITE, (math.inf,), "IEEE", "an infinite term"),
    Edge(([math.nan, -math.inf],), (math.nan,), "IEEE", "NaN propagates"),
    Edge(_MASKED, (([0.0, 0.0],),), "CHOICE", "minus infinity receives nothing", cotangent=3.0),
    Edge(_INFINITE, (([math.nan, 0.0],),), "IEEE", "infinity over itself", cotangent=3.0),
)

op = irregular(
    "logsumexp", type_rule, value, jvp, vjp, edges=EDGES, refused=NOT_FULL_AXES,
    elsewhere=Elsewhere("torch.logsumexp(x, dim=axes, keepdim=keepdims)", "jax.nn.logsumexp"),
)  # fmt: skip
