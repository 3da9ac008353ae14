"""What the kernels that move entries along one axis share, and those that move intervals.

A tensor is read as [before, axis, behind]: three strides, whatever its rank and layout.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise.pointwise import merged

# (rows, columns): for wide rows, for narrow ones, and for few long ones.
WIDE, NARROW, LONG, WIDTH = (4, 256), (128, 8), (1, 1024), 32


def planes(x: Tensor, begin: int, end: int) -> tuple[Tensor, tuple[int, ...]]:
    """Return the strides of x read as [before, axes begin to end, behind], copied if need be."""
    if x.numel() == 0:
        return x, (0, 0, 0)
    parts = [slice(0, begin), slice(begin, end), slice(end, x.dim())]
    walks = [merged(x.shape[part], (x.stride()[part],))[1][0] for part in parts]
    if any(len(walk) > 1 for walk in walks):
        return planes(x.contiguous(), begin, end)
    return x, tuple(walk[0] if walk else 0 for walk in walks)


def tile(width: int) -> tuple[int, int]:
    """Choose how many planes or rows, and how many columns, a program takes."""
    return WIDE if width > WIDTH else NARROW


@triton.jit(
    do_not_specialize=[
        "rows", "inner", "columns", "d0", "d1", "c0", "c1",
        "shift", "za", "zd", "first", "xa", "xd", "xc", "fill",
    ],
    do_not_specialize_on_alignment=["z", "x"],
)  # fmt: skip
def _place_kernel(
    z, x, rows: tl.int64, inner: tl.int64, columns: tl.int64,
    d0: tl.int64, d1: tl.int64, c0: tl.int64, c1: tl.int64,
    shift: tl.int64, za: tl.int64, zd: tl.int64,
    first: tl.int64, xa: tl.int64, xd: tl.int64, xc: tl.int64, fill,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    across = (columns + BLOCK_C - 1) // BLOCK_C
    row = tl.program_id(0) // across * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(0) % across * BLOCK_C + tl.arange(0, BLOCK_C)
    a = row // inner
    d = row % inner
    live = (row < rows)[:, None] & (column < columns)[None, :]
    there = ((d >= d0) & (d < d1))[:, None] & ((column >= c0) & (column < c1))[None, :]
    source = (first + a * xa + (d - d0) * xd)[:, None] + ((column - c0) * xc)[None, :]
    value = tl.load(x + source, mask=live & there, other=fill)
    place = (shift + a * za + d * zd)[:, None] + column[None, :]
    tl.store(z + place, value, mask=live)


def place(
    z: Tensor, x: Tensor, axis: int, start: int, begin: int, end: int, fill: float = 0.0
) -> None:
    """Write positions begin to end of z's axis: x from start on, and a number beside it.

    z is contiguous, and x has its shape but for the axis, in any layout.
    """
    before, behind = z.shape[:axis].numel(), z.shape[axis + 1 :].numel()
    x, (xa, xd, xb) = planes(x, axis, axis + 1)
    length, first = x.shape[axis], start - begin
    if behind == 1 or length == 1 or xd == behind * xb:
        # The axis and what is behind it are one walk, so that a row holds both.
        rows, inner, columns = before, 1, (end - begin) * behind
        d0, d1, c0, c1 = 0, 1, first * behind, (first + length) * behind
        zd, xd, xc = 0, 0, xd if behind == 1 else xb
    else:
        rows, inner, columns = before * (end - begin), end - begin, behind
        d0, d1, c0, c1 = first, first + length, 0, behind
        zd, xc = behind, xb
    block_r, block_c = _tile_of(rows, columns)
    launch(
        _place_kernel, (-(-rows // block_r) * -(-columns // block_c),), z, x,
        rows, inner, columns, d0, d1, c0, c1,
        begin * behind, z.shape[axis] * behind, zd, 0, xa, xd, xc, float(fill),
        BLOCK_R=block_r, BLOCK_C=block_c,
    )  # fmt: skip


def _tile_of(rows: int, columns: int) -> tuple[int, int]:
    return LONG if rows < WIDE[0] and columns > WIDE[1] else tile(columns)


def reverse(x: Tensor, begin: int, end: int) -> Tensor:
    """Copy x with the entries of the axes from begin to end, read as one, in the opposite order."""
    z = torch.empty_like(x, memory_format=torch.contiguous_format)
    if z.numel() == 0:
        return z
    before, extent, behind = (
        x.shape[part].numel() for part in (slice(begin), slice(begin, end), slice(end, None))
    )
    x, (xa, xd, xb) = planes(x, begin, end)
    # From the last entry on, the axis is walked with its stride negated.
    first = (extent - 1) * xd
    if behind == 1:
        rows, inner, columns, zd, xd, xc = before, 1, extent, 0, 0, -xd
    else:
        rows, inner, columns, zd, xd, xc = before * extent, extent, behind, behind, -xd, xb
    block_r, block_c = _tile_of(rows, columns)
    launch(
        _place_kernel, (-(-rows // block_r) * -(-columns // block_c),), z, x,
        rows, inner, columns, 0, inner, 0, columns, 0, extent * behind, zd, first, xa, xd, xc, 0.0,
        BLOCK_R=block_r, BLOCK_C=block_c,
    )  # fmt: skip
    return z


@triton.jit(
    do_not_specialize=["height", "rows", "columns", "diagonal", "xa", "xr", "xc"],
    do_not_specialize_on_alignment=["z", "x"],
)
def _triangle_kernel(
    z, x, height: tl.int64, rows: tl.int64, columns: tl.int64, diagonal: tl.int64,
    xa: tl.int64, xr: tl.int64, xc: tl.int64,
    UPPER: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    across = (columns + BLOCK_C - 1) // BLOCK_C
    row = tl.program_id(0) // across * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(0) % across * BLOCK_C + tl.arange(0, BLOCK_C)
    a = row // height
    r = row % height
    live = (row < rows)[:, None] & (column < columns)[None, :]
    if UPPER:
        kept = column[None, :] - r[:, None] >= diagonal
    else:
        kept = column[None, :] - r[:, None] <= diagonal
    source = (a * xa + r * xr)[:, None] + (column * xc)[None, :]
    value = tl.load(x + source, mask=live & kept, other=0)
    tl.store(z + ((row * columns)[:, None] + column[None, :]), value, mask=live)


def triangle(x: Tensor, diagonal: int, upper: bool) -> Tensor:
    """Copy the entries of matrices on one side of a diagonal, which counts, among zeros."""
    z = torch.empty_like(x, memory_format=torch.contiguous_format)
    *_, height, columns = x.shape
    rows = x.shape[:-1].numel()
    x, (xa, xr, xc) = planes(x, x.dim() - 2, x.dim() - 1)
    diagonal = checks.within(diagonal, z.shape)
    block_r, block_c = tile(columns)
    launch(
        _triangle_kernel, (-(-rows // block_r) * -(-columns // block_c),), z, x,
        height, rows, columns, diagonal, xa, xr, xc,
        UPPER=upper, BLOCK_R=block_r, BLOCK_C=block_c,
    )  # fmt: skip
    return z


def fresh(x: Tensor, axis: int, extent: int) -> Tensor:
    """Return fresh contiguous storage of x's shape but for the axis."""
    shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
    return torch.empty(shape, dtype=x.dtype, device=x.device)
