"""Formulas of products along axes, whose gradients torch finds by a division."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any

from equivalence.registry import OPS
from equivalence.worlds.contract import Form
from spec.axes import kept_index, split_axes
from spec.op import AnyTensor
from spec.scalar import divide, is_zero, select
from spec.tensor import tabulate, zip_map

Gradients = tuple[AnyTensor | None, ...]


def _prod_by_a_division(
    inputs: Sequence[AnyTensor],
    cotangent: AnyTensor,
    *,
    axes: tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Gradients:
    """Return g (z / x) where x is not 0 (FunctionsManual.cpp, prod_backward)."""
    (x,) = inputs
    z, (kept, _) = OPS["prod"].value(x, axes=axes), split_axes(x.rank, axes)
    (safe,) = OPS["prod"].vjp(inputs, cotangent, axes=axes, keepdims=keepdims)
    assert safe is not None

    def back(*i: Any) -> Any:
        rate = divide(z[kept_index(i, kept, False)], select(is_zero(x[i]), 1, x[i]))
        share = cotangent[kept_index(i, kept, keepdims)] * rate
        return select(is_zero(x[i]), safe[i], share)

    return (tabulate(x.shape, back),)


def _cumprod_by_a_division(
    inputs: Sequence[AnyTensor], cotangent: AnyTensor, *, axis: int
) -> Gradients:
    """Return the sum of all g z behind, over x where it is not 0 (cumprod_backward)."""
    (x,) = inputs
    shares = zip_map(mul, cotangent, OPS["cumprod"].value(x, axis=axis))
    sums = OPS["cumsum"].value(shares, axis=axis, reverse=True)
    (safe,) = OPS["cumprod"].vjp(inputs, cotangent, axis=axis)
    assert safe is not None

    def rate(x: Any, total: Any, other: Any) -> Any:
        none = is_zero(x)
        return select(none, other, divide(total, select(none, 1, x)))

    return (zip_map(rate, x, sums, safe),)


PRODUCTS: Mapping[str, tuple[Form, ...]] = {
    "prod": (Form("g (z / x)", vjp=_prod_by_a_division),),
    "cumprod": (Form("sum g z / x", vjp=_cumprod_by_a_division),),
}
