"""Twin of spec.ops.norm.

Absolute values are added up by the engine of fast.kernels.rows.reduce, in fp32 for every dtype. For
squares it goes over the input twice: it finds the largest magnitudes, and then adds up the squares
of the quotients; the root is taken of the few sums. The gradient is one pointwise launch, which
reads the cotangent and the norm with stride 0. Saved: the input, and the norm in fp32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example, reduction
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows.reduce import LARGEST, MAGNITUDES, SQUARES, reduce
from fast.ops.max import widened

Axes = tuple[int, ...] | None


@triton.jit
def scale_of(m):
    """Return what squares are divided by; the largest of nothing is minus infinity."""
    return tl.where((m > 0.0) & (m < float("inf")), m, 1.0)


@triton.jit
def _root(total, scale):
    return scale * tl.sqrt_rn(total)


@triton.jit
def signed(x, g):
    """Return g by the sign of x, nothing without one."""
    return tl.where(x < 0, -g, tl.where(x > 0, g, 0.0))


@triton.jit
def shared(x, g, z):
    """Return g (x / z), nothing where z is 0."""
    return tl.where(z == 0.0, 0.0, tl.div_rn(x, tl.where(z == 0.0, 1.0, z)) * g)


def check(x: Tensor, *, ord: int = 2, axes: Axes = None, keepdims: bool = False) -> None:
    """Refuse axes out of range (C1) or given twice (C2), and other orders (C3)."""
    checks.floats("norm", x)
    checks.axes("norm", x.dim(), axes)
    if isinstance(ord, bool) or ord not in (1, 2):
        raise Rejected(f"norm C3: ord is 1 or 2, got {ord!r}")


def value(
    x: Tensor, *, ord: int = 2, axes: Axes = None, keepdims: bool = False
) -> tuple[Tensor, Saved]:
    """Add squares or absolute values along the axes; of the squares, take the root."""
    gone = checks.axes("norm", x.dim(), axes)
    if ord == 1:
        norm = reduce(MAGNITUDES, x, gone, torch.float32, wide=False)
    else:
        scale = pointwise.value(scale_of, reduce(LARGEST, x, gone, torch.float32, wide=False))
        total = reduce(SQUARES, x, gone, torch.float32, wide=False, scales=scale)
        norm = pointwise.value(_root, total, scale)
    norm = norm.reshape(widened(x, gone))
    z = norm.to(x.dtype)
    return z if keepdims else z.squeeze(gone), (x, norm, ord)


def _wanted(cotangent: Tensor, norm: Tensor, x: Tensor) -> Tensor:
    """Repeat a cotangent along the axes that were reduced."""
    return cotangent.reshape(norm.shape).expand(x.shape)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g by the sign of x, or g (x / z)."""
    x, norm, ord = saved
    if not needs[0]:
        return (None,)
    g = _wanted(cotangent, norm, x)
    if ord == 1:
        return (pointwise.value(signed, x, g),)
    return (pointwise.value(shared, x, g, norm.expand(x.shape)),)


def scaled_root(sizes: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return the root of the sum of squares along axes, which stay; nothing leaves the range."""
    scale = sizes.amax(axes, keepdim=True)
    scale.masked_fill_((scale == 0) | ~scale.isfinite(), 1.0)
    total = (sizes / scale).square_().sum(axes, keepdim=True)
    # A root of 0 has no rate, nor has 0 an infinite one to hand a tangent.
    empty = total == 0
    return total.masked_fill(empty, 1.0).sqrt_().mul_(scale).masked_fill(empty, 0.0)


def aten_value(
    x: Tensor, *, ord: int = 2, axes: Axes = None, keepdims: bool = False
) -> tuple[Tensor, Saved]:
    """Add squares or absolute values, computed wide; to torch no axes are all of them."""
    gone = checks.axes("norm", x.dim(), axes)
    sizes = wide(x).abs()
    if ord == 1 or not gone or not x.numel():
        norm = sizes.sum(gone, keepdim=True) if gone else sizes
    else:
        norm = scaled_root(sizes, gone)
    z = norm.to(x.dtype)
    return z if keepdims else z.squeeze(gone), (x, norm, ord)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g by the sign of x, or g (x / z), computed wide."""
    x, norm, ord = saved
    if not needs[0]:
        return (None,)
    g = _wanted(cotangent, norm, x)
    if ord == 1:
        return (torch.where(x < 0, -g, torch.where(x > 0, g, 0.0)),)
    share = (wide(x) / norm).mul_(g).masked_fill_(norm == 0, 0.0)
    return (share.to(x.dtype),)


MOST_KERNELS = 12
"""Three folds of rows and of columns, each whole or in chunks, and what joins the chunks; two
functions of the few results; and the gradient of each order."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield what reductions do, by each order."""
    for ord in (2, 1):
        for inputs, attributes in reduction(dtype):
            yield inputs, {**attributes, "ord": ord}


op = Op(
    "norm", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"ord": 2, "axes": None, "keepdims": False},
)  # fmt: skip
