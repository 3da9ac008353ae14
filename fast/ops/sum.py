"""Twin of spec.ops.sum.

The gradient is a view of the cotangent, repeated with stride 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import computed_in
from fast.kernels import checks
from fast.kernels.examples import reduction
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows.reduce import SUM, reduce

Axes = tuple[int, ...] | None


def check(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> None:
    """Refuse axes out of range (C1) or given twice (C2)."""
    checks.floats("sum", x)
    checks.axes("sum", x.dim(), axes)


def value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Add along the axes."""
    gone = checks.axes("sum", x.dim(), axes)
    z = reduce(SUM, x, gone)
    return z.reshape(_widened(x, gone)) if keepdims else z, (x.shape, gone, keepdims)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Repeat the cotangent along the axes."""
    if not needs[0]:
        return (None,)
    shape, gone, keepdims = saved
    if not keepdims:
        for axis in sorted(gone):
            cotangent = cotangent.unsqueeze(axis)
    return (cotangent.expand(shape),)


def _widened(x: Tensor, gone: tuple[int, ...]) -> list[int]:
    return [1 if axis in gone else size for axis, size in enumerate(x.shape)]


def aten_value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Add along the axes; torch reads an empty tuple as all axes, so that is a copy."""
    gone = checks.axes("sum", x.dim(), axes)
    saved = (x.shape, gone, keepdims)
    if not gone and x.dim():
        return x.clone(memory_format=torch.contiguous_format), saved
    return x.sum(gone, keepdims, dtype=computed_in(x.dtype)).to(x.dtype), saved


aten_vjp = vjp


MOST_KERNELS = 5
"""In 16 bits: rows and columns, each in one piece or in fp32 chunks, and the sum of the chunks."""


EXAMPLES = reduction
op = Op(
    "sum", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axes": None, "keepdims": False},
)  # fmt: skip
