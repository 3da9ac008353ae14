"""Twin of spec.ops.cumsum.

The kernel of fast.kernels.rows.rowwise walks rows from either end, so the gradient is the same
launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import computed_in
from fast.kernels import checks
from fast.kernels.examples import Example, along_axis
from fast.kernels.page import REQUIRED, Gradients, Op, Saved
from fast.kernels.rows.rowwise import SUM, running


def check(x: Tensor, *, axis: int, reverse: bool = False, exclusive: bool = False) -> None:
    """Refuse an axis that x does not have (C1)."""
    checks.floats("cumsum", x)
    checks.axis("cumsum C1", x.dim(), axis)


def value(
    x: Tensor, *, axis: int, reverse: bool = False, exclusive: bool = False
) -> tuple[Tensor, Saved]:
    """Add the entries up to each one, it included or not."""
    return running(SUM, x, axis, reverse, exclusive), (axis, reverse, exclusive)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add the cotangent up in the other direction."""
    axis, reverse, exclusive = saved
    return (running(SUM, cotangent, axis, not reverse, exclusive) if needs[0] else None,)


def _aten(x: Tensor, axis: int, reverse: bool, exclusive: bool) -> Tensor:
    """Turn around what is added from the end; put a zero in front of what leaves an entry out."""
    turned = x.flip(axis) if reverse else x
    if exclusive and x.shape[axis]:
        zero = turned.new_zeros(()).expand_as(turned.narrow(axis, 0, 1))
        turned = torch.cat((zero, turned.narrow(axis, 0, x.shape[axis] - 1)), axis)
    sums = torch.cumsum(turned, axis, dtype=computed_in(x.dtype)).to(x.dtype)
    return sums.flip(axis) if reverse else sums


def aten_value(
    x: Tensor, *, axis: int, reverse: bool = False, exclusive: bool = False
) -> tuple[Tensor, Saved]:
    """Add the entries up to each one, it included or not."""
    return _aten(x, axis, reverse, exclusive), (axis, reverse, exclusive)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add the cotangent up in the other direction."""
    axis, reverse, exclusive = saved
    return (_aten(cotangent, axis, not reverse, exclusive) if needs[0] else None,)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield rows for both tiles, and rows that are walked from the end."""
    yield from along_axis(dtype)
    yield (torch.ones(3, 7, dtype=dtype),), {"axis": 1, "reverse": True, "exclusive": True}


op = Op(
    "cumsum", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axis": REQUIRED, "reverse": False, "exclusive": False},
)  # fmt: skip
