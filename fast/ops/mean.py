"""Twin of spec.ops.mean.

The sum is divided where it is added up, in fp32, before its one rounding to storage. The number of
entries is an fp32 number too, so beyond 2^24 it is rounded. The gradient is a view of the divided
cotangent, repeated with stride 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import torch
from torch import Tensor

from fast.device.dtypes import computed_in, wide
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example, reduction
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows.reduce import SUM, reduce

Axes = tuple[int, ...] | None


@triton.jit
def _share(g, number):
    return tl.div_rn(g, number)


def check(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> None:
    """Refuse axes out of range (C1), given twice (C2) or empty (C3)."""
    checks.floats("mean", x)
    gone = checks.axes("mean", x.dim(), axes)
    if any(x.shape[axis] == 0 for axis in gone):
        raise Rejected(f"mean C3: no reduced axis is empty, got axes {gone} of {tuple(x.shape)}")


def _saved(x: Tensor, axes: Axes) -> tuple[tuple[int, ...], torch.Size, int]:
    """Return the axes, the shape with extents of 1 in their place, and how many are averaged."""
    gone = checks.axes("mean", x.dim(), axes)
    shape = torch.Size(1 if axis in gone else size for axis, size in enumerate(x.shape))
    return gone, shape, prod(x.shape[axis] for axis in gone)


def value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Average along the axes."""
    gone, shape, number = _saved(x, axes)
    z = reduce(SUM, x, gone, divisor=number)
    return z.reshape(shape) if keepdims else z, (x.shape, shape, number)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Divide the cotangent by the number, and repeat it along the axes."""
    if not needs[0]:
        return (None,)
    whole, shape, number = saved
    share = torch.empty_like(cotangent, memory_format=torch.contiguous_format)
    # Not wide: with both kernels of the sum, that would be more than eight compiled ones.
    pointwise.run(_share, (cotangent,), (share,), (float(number),), wide=False)
    return (share.reshape(shape).expand(whole),)


def aten_value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Average along the axes; torch reads an empty tuple as all axes, so that is a copy."""
    gone, shape, number = _saved(x, axes)
    saved = (x.shape, shape, number)
    if not gone:
        return x.clone(memory_format=torch.contiguous_format), saved
    return x.sum(gone, keepdims, dtype=computed_in(x.dtype)).div_(number).to(x.dtype), saved


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Divide the cotangent by the number, and repeat it along the axes."""
    if not needs[0]:
        return (None,)
    whole, shape, number = saved
    return ((wide(cotangent) / number).to(cotangent.dtype).reshape(shape).expand(whole),)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield what reductions do, but for the long row, whose kernels are those of `sum`."""
    yield from list(reduction(dtype))[:3]


op = Op(
    "mean", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axes": None, "keepdims": False},
)  # fmt: skip
