"""Twin of spec.ops.slice.

The output is fresh, contiguous storage, and so is the gradient, which one kernel writes with the
zeros around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.page import REQUIRED, Gradients, Op, Saved
from fast.kernels.rows import along_axis


def check(x: Tensor, *, axis: int, start: int, length: int) -> None:
    """Refuse an axis (C1), or an interval that is not within it (C2)."""
    checks.floats("slice", x)
    extent = x.shape[checks.axis("slice C1", x.dim(), axis)]
    whole = all(type(n) is int and n >= 0 for n in (start, length))
    if not whole or start + length > extent:
        raise Rejected(
            f"slice C2: start and length are integers >= 0, together at most {extent}, "
            f"got {start!r} and {length!r}"
        )


def value(x: Tensor, *, axis: int, start: int, length: int) -> tuple[Tensor, Saved]:
    """Copy the interval."""
    checks.for_kernels(x)
    at = axis % x.dim()
    z = along_axis.fresh(x, at, length)
    along_axis.place(z, x.narrow(at, start, length), at, 0, 0, length)
    return z, (at, start, x.shape[at])


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Put the cotangent between zeros."""
    if not needs[0]:
        return (None,)
    at, start, extent = saved
    dx = along_axis.fresh(cotangent, at, extent)
    along_axis.place(dx, cotangent, at, start, 0, extent)
    return (dx,)


def aten_value(x: Tensor, *, axis: int, start: int, length: int) -> tuple[Tensor, Saved]:
    """Copy the interval."""
    at = axis % x.dim()
    z = x.narrow(at, start, length).clone(memory_format=torch.contiguous_format)
    return z, (at, start, x.shape[at])


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Put the cotangent between zeros."""
    if not needs[0]:
        return (None,)
    at, start, extent = saved
    dx = along_axis.fresh(cotangent, at, extent).zero_()
    dx.narrow(at, start, cotangent.shape[at]).copy_(cotangent)
    return (dx,)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield many rows, few long rows, and narrow ones."""
    x = torch.ones(16, 512, dtype=dtype)
    yield (x,), {"axis": 1, "start": 1, "length": 300}
    yield (x,), {"axis": 0, "start": 1, "length": 2}
    yield (x,), {"axis": 1, "start": 8, "length": 8}


op = Op(
    "slice", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axis": REQUIRED, "start": REQUIRED, "length": REQUIRED},
)  # fmt: skip
