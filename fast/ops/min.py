"""Twin of spec.ops.min.

The smallest is found as the largest of the opposites. Who ties for it, and what they share, is
found as for the largest: the kernel of fast.ops.max compares with what is saved.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.page import Op, Saved
from fast.kernels.rows.reduce import MIN, reduce
from fast.ops.max import EXAMPLES as of_max
from fast.ops.max import aten_vjp, vjp, widened

Axes = tuple[int, ...] | None


def check(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> None:
    """Refuse axes out of range (C1), given twice (C2) or empty (C3)."""
    checks.floats("min", x)
    gone = checks.axes("min", x.dim(), axes)
    if any(x.shape[axis] == 0 for axis in gone):
        raise Rejected(f"min C3: no reduced axis is empty, got axes {gone} of {tuple(x.shape)}")


def value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Take the smallest along the axes; the input and the smallest are saved."""
    gone = checks.axes("min", x.dim(), axes)
    smallest = reduce(MIN, x, gone, torch.float32, wide=False)
    z = smallest.to(x.dtype)
    return z.reshape(widened(x, gone)) if keepdims else z, (x, smallest, gone)


def aten_value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Take the smallest along the axes; torch reads an empty tuple as all axes."""
    gone = checks.axes("min", x.dim(), axes)
    if not gone:
        z = x.clone(memory_format=torch.contiguous_format)
        return z, (x, z, gone)
    z = torch.amin(x, gone, keepdim=True)
    return z if keepdims else z.squeeze(gone), (x, z, gone)


EXAMPLES = of_max
op = Op(
    "min", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axes": None, "keepdims": False},
)  # fmt: skip
