"""Twin of spec.ops.variance_like.

Three launches, all in fp32: the means, the squared distances from them, and their sums, each
divided once. Saved: the input, the means in fp32, and the divisor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example, reduction
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows.reduce import SUM, reduce
from fast.ops.max import widened

Axes = tuple[int, ...] | None


@triton.jit
def _square_from(x, m):
    return (x - m) * (x - m)


@triton.jit
def _slope(x, m, g, over):
    return 2.0 * (x - m) * tl.div_rn(g, over)


def check(x: Tensor, *, axes: Axes = None, keepdims: bool = False, correction: int = 1) -> None:
    """Refuse bad axes (C1, C2), a bad correction (C3) and too few entries for it (C4)."""
    checks.floats("variance_like", x)
    gone = checks.axes("variance_like", x.dim(), axes)
    if type(correction) is not int or correction < 0:
        raise Rejected(f"variance_like C3: the correction is an integer >= 0, got {correction!r}")
    number = prod(x.shape[axis] for axis in gone)
    if number <= correction:
        raise Rejected(
            f"variance_like C4: more entries are reduced than the correction, got {number} and "
            f"{correction}"
        )


def value(
    x: Tensor, *, axes: Axes = None, keepdims: bool = False, correction: int = 1
) -> tuple[Tensor, Saved]:
    """Average, square the distances, and add them up."""
    gone = checks.axes("variance_like", x.dim(), axes)
    number = prod(x.shape[axis] for axis in gone)
    mean = reduce(SUM, x, gone, torch.float32, wide=False, divisor=number)
    mean = mean.reshape(widened(x, gone))
    squares = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    pointwise.run(_square_from, (x, mean.expand(x.shape)), (squares,), wide=False)
    z = reduce(SUM, squares, gone, x.dtype, wide=False, divisor=number - correction)
    return z.reshape(mean.shape) if keepdims else z, (x, mean, number - correction)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return twice the distance times the divided cotangent."""
    x, mean, over = saved
    g = cotangent.reshape(mean.shape).expand(x.shape)
    return pointwise.vjp(_slope, (x, mean.expand(x.shape)), g, needs, (float(over),))


def aten_value(
    x: Tensor, *, axes: Axes = None, keepdims: bool = False, correction: int = 1
) -> tuple[Tensor, Saved]:
    """Average, square the distances, and add them up; to torch no axes are all of them."""
    gone, x32 = checks.axes("variance_like", x.dim(), axes), wide(x)
    number = prod(x.shape[axis] for axis in gone)
    mean = x32.sum(gone, keepdim=True).div_(number) if gone else x32
    z = (x32 - mean).square_()
    z = z.sum(gone, keepdim=True) if gone else z
    z = (z / (number - correction)).to(x.dtype)
    return z if keepdims else z.squeeze(gone), (x, mean, number - correction)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return twice the distance times the divided cotangent."""
    x, mean, over = saved
    if not needs[0]:
        return (None,)
    g = wide(cotangent).reshape(mean.shape) / over
    return ((2.0 * (wide(x) - mean) * g).to(x.dtype),)


MOST_KERNELS = 8
"""Sums of rows and of columns, of the input and of the squares, each whole or in fp32 chunks."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield what reductions do."""
    yield from reduction(dtype)


op = Op(
    "variance_like", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axes": None, "keepdims": False, "correction": 1},
)  # fmt: skip
