"""Twin of spec.ops.prod.

The engine of fast.kernels.rows.reduce multiplies in fp32, in a fixed order. For the gradient, the
products of the entries before each and of those behind it are kept in fp32
(fast.kernels.rows.rowwise), and multiplied by the cotangent in one pointwise launch. Axes that lie
side by side are one row, others are brought together by a copy. Saved: the input.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import reduction
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import rowwise
from fast.kernels.rows.reduce import PRODUCT, inverse, reduce
from fast.ops.max import widened

Axes = tuple[int, ...] | None


@triton.jit
def _rate(before, behind, g):
    return before * behind * g


def check(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> None:
    """Refuse axes out of range (C1) or given twice (C2)."""
    checks.floats("prod", x)
    checks.axes("prod", x.dim(), axes)


def value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Multiply along the axes; the input is saved."""
    gone = checks.axes("prod", x.dim(), axes)
    z = reduce(PRODUCT, x, gone, wide=False)
    return z.reshape(widened(x, gone)) if keepdims else z, (x, gone)


def _spread(g: Tensor, x: Tensor, gone: tuple[int, ...]) -> Tensor:
    """Repeat a cotangent along the axes that were reduced."""
    return g.reshape(widened(x, gone)).expand(x.shape)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g by the products of all other entries."""
    if not needs[0]:
        return (None,)
    x, gone = saved
    source, order = rowwise.joined(x, gone)
    shape = [x.shape[axis] for axis in order]
    before, behind = (torch.empty(shape, dtype=torch.float32, device=x.device) for _ in range(2))
    rowwise.run_along(rowwise.PRODUCT, source, False, True, before)
    rowwise.run_along(rowwise.PRODUCT, source, True, True, behind)
    dx = torch.empty(shape, dtype=x.dtype, device=x.device)
    g = _spread(cotangent, x, gone).permute(order)
    pointwise.run(_rate, (before, behind, g), (dx,), wide=False)
    return (dx.permute(inverse(order)),)


def aten_value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Multiply along the axes, computed wide; torch's prod takes one axis."""
    gone = checks.axes("prod", x.dim(), axes)
    z = rowwise.joined(wide(x), gone)[0].prod(1).to(x.dtype)
    kept = [size for axis, size in enumerate(x.shape) if axis not in gone]
    return z.reshape(widened(x, gone) if keepdims else kept), (x, gone)


def _before(x: Tensor) -> Tensor:
    """Return the products of what lies before each entry along the middle axis."""
    first = x.new_ones((x.shape[0], 1, x.shape[2]))
    return torch.cat((first, x), 1).narrow(1, 0, x.shape[1]).cumprod(1)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g by the products of all other entries, computed wide."""
    if not needs[0]:
        return (None,)
    x, gone = saved
    source, order = rowwise.joined(wide(x), gone)
    others = _before(source) * _before(source.flip(1)).flip(1)
    rate = others.reshape([x.shape[axis] for axis in order]).permute(inverse(order))
    return ((rate * _spread(cotangent, x, gone)).to(x.dtype),)


MOST_KERNELS = 6
"""Products of rows and of columns, those of rows in chunks, and what joins the chunks; products on
the way, and the gradient that multiplies them."""

EXAMPLES = reduction
op = Op(
    "prod", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axes": None, "keepdims": False},
)  # fmt: skip
