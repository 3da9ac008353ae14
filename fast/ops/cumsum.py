"""Twin of spec.ops.cumsum.

A row is walked block by block, in a fixed order: a block's own sums are a scan, to which the sum of
all blocks before it is added, in fp32. From the end a row is walked by a negative stride, and an
entry is left out of its sum by reading its neighbour. So the gradient is the same launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import computed_in
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks, rowwise
from fast.kernels.examples import Example, along_axis
from fast.kernels.page import REQUIRED, Gradients, Op, Saved

_SIZES = ["rows", "n", "inner", "apart"]


@triton.jit(do_not_specialize=[*_SIZES, "first", "xa", "xn", "xb", "start_z", "zn"],
            do_not_specialize_on_alignment=["z", "x"])  # fmt: skip
def _kernel(
    z, x, rows: tl.int64, n: tl.int32, inner: tl.int64, apart: tl.int32, first: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64, start_z: tl.int64, zn: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = rowwise.starts(row, inner, xa, xb)
    out = rowwise.starts(row, inner, n * inner, 1)
    # The sum so far is read off the last lane; as a sum of blocks it trips the compiler.
    last = (tl.arange(0, BLOCK) == BLOCK - 1)[None, :]
    before = tl.zeros((ROWS,), tl.float32)
    for at in range(0, n, BLOCK):
        if UNIT > 1:
            here = rowwise.block(x, start, at, n, xn, 0.0, UNIT, BLOCK)
            sums = before[:, None] + tl.cumsum(here, 1)
            rowwise.keep(z, out, at, n, inner, sums, live, UNIT, BLOCK)
        else:
            column = at + tl.arange(0, BLOCK)
            place = first + start[:, None] + ((column - apart) * xn)[None, :]
            there = ((column < n) & (column >= apart))[None, :]
            here = tl.load(x + place, mask=there, other=0.0).to(tl.float32)
            sums = before[:, None] + tl.cumsum(here, 1)
            place = start_z + out[:, None] + (column * zn)[None, :]
            tl.store(
                z + place, sums.to(z.dtype.element_ty), mask=live[:, None] & (column < n)[None, :]
            )
        before = tl.sum(tl.where(last, sums, 0.0), 1)


def check(x: Tensor, *, axis: int, reverse: bool = False, exclusive: bool = False) -> None:
    """Refuse an axis that x does not have (C1)."""
    checks.floats("cumsum", x)
    checks.axis("cumsum C1", x.dim(), axis)


def _summed(x: Tensor, axis: int, reverse: bool, exclusive: bool) -> Tensor:
    checks.for_kernels(x)
    source = rowwise.view(x, axis)
    outer, n, inner = source.shape
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    plain = not reverse and not exclusive
    meta = rowwise.tile(source, z.view(outer, n, inner), wide=plain)
    if z.numel():
        xa, xn, xb = source.stride()
        last = n - 1 if reverse else 0
        sign = -1 if reverse else 1
        launch(
            _kernel, (-(-outer * inner // meta["ROWS"]),), z, source, outer * inner, n, inner,
            int(exclusive), last * xn, xa, sign * xn, xb, last * inner, sign * inner, **meta,
        )  # fmt: skip
    return z


def value(
    x: Tensor, *, axis: int, reverse: bool = False, exclusive: bool = False
) -> tuple[Tensor, Saved]:
    """Add the entries up to each one, it included or not."""
    return _summed(x, axis, reverse, exclusive), (axis, reverse, exclusive)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add the cotangent up in the other direction."""
    axis, reverse, exclusive = saved
    return (_summed(cotangent, axis, not reverse, exclusive) if needs[0] else None,)


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
