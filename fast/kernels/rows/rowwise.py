"""What the kernels over rows share: how they read a row, and the sums and products on the way.

A tensor is seen as [outer, n, inner], reduced along n, so any axis of any rank is a row. A program
takes a tile of rows. The first block of a row stays in registers; a row longer than a block is
read on, block by block, as often as the arithmetic passes over it.

Sums on the way are found block by block, in a fixed order: a block's own sums are a scan, to which
the sum of all blocks before it is added, in fp32; products likewise. From the end a row is walked
by a negative stride, and an entry is left out of its own sum by reading its neighbour.

Two tiles: the wide one, whose loads are 128 bits wide, for large aligned rows; the narrow one for
everything else. Rows past the last repeat it and are not stored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Unavailable
from fast.kernels import checks

NARROW = {"ROWS": 4, "BLOCK": 256, "num_warps": 8}
WIDE = {"ROWS": 2, "BLOCK": 1024, "num_warps": 8}
WORTHWHILE = 2**16
"""The number of elements from which the wide tile is used; below, a launch costs more."""

LONGEST = 2**30
"""The most elements of a row: a column is a 32-bit number; offsets have 64."""

SUM, PRODUCT = "sum", "product"
_SIZES = ["rows", "n", "inner", "apart"]


@triton.jit
def tile_of_rows(tile, rows, ROWS: tl.constexpr):
    """Return the rows of a tile, the last one repeated past the end, and which are no repeats."""
    row = tile * tl.full((1,), ROWS, tl.int64) + tl.arange(0, ROWS)
    return tl.minimum(row, rows - 1), row < rows


@triton.jit
def starts(row, inner, outer_stride, inner_stride):
    """Return the offset of each row's first element."""
    return row // inner * outer_stride + row % inner * inner_stride


@triton.jit
def length(n, UNIT: tl.constexpr):
    """Return n, written so that the compiler knows it to be a multiple of UNIT."""
    return n // UNIT * UNIT if UNIT > 1 else n


@triton.jit
def block(x, start, at, n, step, other, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """Read columns [at, at + BLOCK) of rows that begin at the offsets `start`, as fp32."""
    column = at + tl.arange(0, BLOCK)
    if UNIT > 1:
        pointers = tl.multiple_of(x + (start[:, None] + column[None, :]), (1, 16))
    else:
        pointers = x + (start[:, None] + (column * step)[None, :])
    return tl.load(pointers, mask=(column < n)[None, :], other=other).to(tl.float32)


@triton.jit
def summed(
    x, residual, start, behind, at, n, xn, rn, ADDED: tl.constexpr,
    UNIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Read a block of rows of x, to which that of a residual is added where it is said so."""
    here = block(x, start, at, n, xn, 0.0, UNIT, BLOCK)
    if ADDED:
        here += block(residual, behind, at, n, rn, 0.0, UNIT, BLOCK)
    return here


@triton.jit
def keep(z, start, at, n, step, value, live, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """Store what `block` would read, in the type of z, for the rows that are live."""
    column = at + tl.arange(0, BLOCK)
    if UNIT > 1:
        pointers = tl.multiple_of(z + (start[:, None] + column[None, :]), (1, 16))
    else:
        pointers = z + (start[:, None] + (column * step)[None, :])
    tl.store(pointers, value.to(z.dtype.element_ty), mask=live[:, None] & (column < n)[None, :])


@triton.jit
def line(x, at, n, step, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """Read elements [at, at + BLOCK) of a vector that every row shares, as fp32, in a row."""
    column = at + tl.arange(0, BLOCK)
    pointers = x + column * step
    if UNIT > 1:
        pointers = tl.multiple_of(x + column, (16,))
    return tl.load(pointers, mask=column < n, other=0.0).to(tl.float32)[None, :]


def view(x: Tensor, axis: int) -> Tensor:
    """See x as [outer, n, inner], by a view where the strides allow it."""
    axis %= x.dim()
    return x.reshape(x.shape[:axis].numel(), x.shape[axis], x.shape[axis + 1 :].numel())


def joined(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """See x as [outer, n, inner] with all the axes as n, and say in which order its axes then lie.

    Axes that lie side by side are one by a view, where the strides allow it.
    """
    gone = sorted(axes)
    begin = gone[0] if gone else x.dim()
    order = tuple(range(x.dim()))
    if gone != [*range(begin, begin + len(gone))]:
        kept = [axis for axis in order if axis not in gone]
        order, begin = (*kept, *gone), len(kept)
    y = x.permute(order)
    end = begin + len(gone)
    return y.reshape(
        y.shape[:begin].numel(), y.shape[begin:end].numel(), y.shape[end:].numel()
    ), order


def need_columns(n: int) -> None:
    """Refuse rows of more elements than a column's number can count."""
    if n > LONGEST:
        raise Unavailable(
            f"fast: the kernels over rows take up to {LONGEST} elements in a row, got {n}; "
            "the aten provider takes more"
        )


def tile(*operands: Tensor, wide: bool = True) -> dict[str, Any]:
    """Choose the tile for operands of one shape [outer, n, inner]: a launch's keyword arguments."""
    outer, n, inner = operands[0].shape
    need_columns(n)
    unit = 16 // min(x.element_size() for x in operands)
    fills = n >= WIDE["BLOCK"] // 4 and inner == 1 and outer * n >= WORTHWHILE
    if wide and fills and n % unit == 0 and all(_aligned(x, unit) for x in operands):
        return {"UNIT": unit, **WIDE}
    return {"UNIT": 1, **NARROW}


def _aligned(x: Tensor, unit: int) -> bool:
    return x.stride(1) == 1 and x.stride(0) % unit == 0 and x.data_ptr() % 16 == 0


def statistic(x: Tensor) -> Tensor:
    """Allocate one fp32 number per row of x [outer, n, inner]."""
    return torch.empty(x.shape[0] * x.shape[2], dtype=torch.float32, device=x.device)


@triton.jit
def _with_before(before, here, KIND: tl.constexpr):
    """Return the sums, or products, of a block and of all before it."""
    if KIND == "product":
        found = before[:, None] * tl.cumprod(here, 1)
    else:
        found = before[:, None] + tl.cumsum(here, 1)
    return found


@triton.jit(do_not_specialize=[*_SIZES, "first", "xa", "xn", "xb", "start_z", "zn"],
            do_not_specialize_on_alignment=["z", "x"])  # fmt: skip
def _running_kernel(
    z, x, rows: tl.int64, n: tl.int32, inner: tl.int64, apart: tl.int32, first: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64, start_z: tl.int64, zn: tl.int64,
    KIND: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    EMPTY: tl.constexpr = 1.0 if KIND == "product" else 0.0
    n = length(n, UNIT)
    row, live = tile_of_rows(tl.program_id(0), rows, ROWS)
    start = starts(row, inner, xa, xb)
    out = starts(row, inner, n * inner, 1)
    # What was found so far is read off the last lane; as a sum of blocks it trips the compiler.
    last = (tl.arange(0, BLOCK) == BLOCK - 1)[None, :]
    before = tl.full((ROWS,), EMPTY, tl.float32)
    for at in range(0, n, BLOCK):
        if UNIT > 1:
            here = block(x, start, at, n, xn, EMPTY, UNIT, BLOCK)
            found = _with_before(before, here, KIND)
            keep(z, out, at, n, inner, found, live, UNIT, BLOCK)
        else:
            column = at + tl.arange(0, BLOCK)
            place = first + start[:, None] + ((column - apart) * xn)[None, :]
            there = ((column < n) & (column >= apart))[None, :]
            here = tl.load(x + place, mask=there, other=EMPTY).to(tl.float32)
            found = _with_before(before, here, KIND)
            place = start_z + out[:, None] + (column * zn)[None, :]
            tl.store(
                z + place, found.to(z.dtype.element_ty), mask=live[:, None] & (column < n)[None, :]
            )
        before = tl.sum(tl.where(last, found, 0.0), 1)


def run_along(kind: str, source: Tensor, reverse: bool, exclusive: bool, z: Tensor) -> None:
    """Write the sums or products on the way along a source [outer, n, inner] into z.

    z is contiguous, of the source's shape.
    """
    checks.for_kernels(source)
    outer, n, inner = source.shape
    plain = not reverse and not exclusive
    meta = tile(source, z.view(outer, n, inner), wide=plain)
    if not z.numel():
        return
    xa, xn, xb = source.stride()
    last = n - 1 if reverse else 0
    sign = -1 if reverse else 1
    launch(
        _running_kernel, (-(-outer * inner // meta["ROWS"]),), z, source, outer * inner, n, inner,
        int(exclusive), last * xn, xa, sign * xn, xb, last * inner, sign * inner,
        KIND=kind, **meta,
    )  # fmt: skip


def running(kind: str, x: Tensor, axis: int, reverse: bool, exclusive: bool) -> Tensor:
    """Return the sums or products on the way along an axis of x, from either end."""
    source = view(x, axis)
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    run_along(kind, source, reverse, exclusive, z)
    return z
