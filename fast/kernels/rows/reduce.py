"""One engine for reductions over any axes, and the row geometry that such kernels share.

Every output is owned by one program, which walks its slice in a fixed order with fp32
accumulators: no atomics, so a result depends on the shape and the layout alone. Few outputs over
many elements are cut into chunks, whose fp32 partials a second launch reduces.

A slice is at most two merged axes, walked by nested loops, and a row index at most three; what
does not merge into that is first copied to contiguous storage. Tiles have their fast axis along
the slice (rows), or across slices where those lie closer together or are short (columns).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise.pointwise import merged

SUM, MAX, MIN, PRODUCT = "sum", "max", "min", "product"
SQUARES, MAGNITUDES, LARGEST = "squares", "magnitudes", "largest magnitude"
MAX_KEPT, MAX_GONE = 3, 2
ROW_TILE, COLUMN_TILE = (8, 256), (128, 16)
SHORT = 32
"""Slices of so few elements are columns, however they lie."""
CHUNK, COLUMN_CHUNK = 4096, 512
"""How long a part of a slice is at least. On an H200, 4,096 columns of 8,192 numbers take 0.09 ms
in parts of 512, and 0.28 ms in one."""
PROGRAMS = 512
INTEGERS = ["rows", "n1", "n2", "s0", "s1", "s2", "m0", "m1", "t0", "t1"]


@dataclass(frozen=True, slots=True)
class Rows:
    """How a kernel walks `x`: row sizes and strides, slice sizes and strides, the tile's axis."""

    x: Tensor
    kept: tuple[int, ...]
    gone: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    lengths: tuple[int, ...]
    steps: tuple[int, ...]
    columns: bool

    @property
    def rows(self) -> int:
        """Count the slices."""
        return prod(self.sizes)

    @property
    def integers(self) -> tuple[int, ...]:
        """List the kernel arguments that `INTEGERS` names."""
        return (self.rows, *self.sizes[1:], *self.strides, *self.lengths, *self.steps)

    @property
    def tile(self) -> tuple[int, int]:
        """Say how many rows, and how many elements of each, a tile has."""
        return COLUMN_TILE if self.columns else ROW_TILE

    @property
    def chunk(self) -> int:
        """Say how many elements of a slice are worth a program of their own."""
        return COLUMN_CHUNK if self.columns else CHUNK

    @property
    def warps(self) -> int:
        """Say how many warps share a tile, so that offsets of 64 bits fit its registers."""
        return 8 if self.columns else 4

    @property
    def aligned(self) -> bool:
        """Say whether every slice starts on 16 bytes and is contiguous."""
        unit = 16 // self.x.element_size()
        starts = (*self.strides, self.steps[0] if self.lengths[0] > 1 else 0)
        return (
            not self.columns
            and self.steps[1] == 1
            and self.x.data_ptr() % 16 == 0
            and all(start % unit == 0 for start in starts)
        )


def walk(x: Tensor, axes: tuple[int, ...]) -> Rows:
    """Lay out the slices of x along `axes`, which are distinct and not negative.

    The sizes and strides of what is kept and of what is reduced are merged; x is copied only where
    they do not merge into what a kernel walks.
    """
    kept = tuple(axis for axis in range(x.dim()) if axis not in axes)
    gone = tuple(sorted(axes, key=lambda axis: -x.stride(axis)))
    view = x.permute((*kept, *gone))
    if x.numel() == 0:
        # Nothing is read, so any strides do.
        x = view = x.new_empty(()).expand(x.shape).permute((*kept, *gone))
    sizes, (strides,) = merged(view.shape[: len(kept)], (view.stride()[: len(kept)],))
    lengths, (steps,) = merged(view.shape[len(kept) :], (view.stride()[len(kept) :],))
    if len(sizes) > MAX_KEPT or len(lengths) > MAX_GONE:
        return walk(view.contiguous().permute(inverse((*kept, *gone))), axes)
    short = prod(lengths) <= SHORT
    columns = bool(sizes) and bool(lengths) and (short or strides[-1] < steps[-1])
    return Rows(
        x, kept, gone, _padded(sizes, MAX_KEPT, 1), _padded(strides, MAX_KEPT, 0),
        _padded(lengths, MAX_GONE, 1), _padded(steps, MAX_GONE, 0 if lengths else 1), columns,
    )  # fmt: skip


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation that undoes `order`."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _padded(values: tuple[int, ...], length: int, fill: int) -> tuple[int, ...]:
    return (*(fill,) * (length - len(values)), *values)


@triton.jit
def row_offset(row, n1, n2, s0, s1, s2):
    """Return where a row starts in storage."""
    return row // n2 // n1 * s0 + row // n2 % n1 * s1 + row % n2 * s2


@triton.jit
def maximum_along(total, AXIS: tl.constexpr):
    """Reduce a tile to its maximum, or NaN; the compiler and the interpreter differ in tl.max."""
    nan = tl.max((total != total).to(tl.int32), AXIS)
    most = tl.max(tl.where(total != total, float("-inf"), total), AXIS)
    return tl.where(nan > 0, float("nan"), most)


@triton.jit
def product_along(total, lane, AXIS: tl.constexpr, SIZE: tl.constexpr):
    """Reduce a tile to its product: Triton has the products on the way, of which the last is it."""
    return tl.sum(tl.where(lane == SIZE - 1, tl.cumprod(total, AXIS), 0.0), AXIS)


@triton.jit
def _part(value, scale, KIND: tl.constexpr):
    """Return what an entry counts as; the smallest is the largest of the opposites."""
    if KIND == "min":
        value = -value
    if KIND == "squares":
        value = tl.div_rn(value, scale)
        value = value * value
    if KIND == "magnitudes" or KIND == "largest magnitude":
        value = tl.abs(value)
    return value


@triton.jit(
    do_not_specialize=[*INTEGERS, "chunk0", "chunk1"],
    do_not_specialize_on_alignment=["z", "x", "scales"],
)
def _reduce_kernel(
    z, x, scales, rows: tl.int64, n1: tl.int64, n2: tl.int64,
    s0: tl.int64, s1: tl.int64, s2: tl.int64,
    m0: tl.int64, m1: tl.int64, t0: tl.int64, t1: tl.int64, chunk0: tl.int64, chunk1: tl.int64,
    divisor: tl.float32, KIND: tl.constexpr, AXIS: tl.constexpr, ALIGNED: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr,
):  # fmt: skip
    EXTREME: tl.constexpr = KIND == "max" or KIND == "min" or KIND == "largest magnitude"
    PRODUCT: tl.constexpr = KIND == "product"
    NOTHING: tl.constexpr = 1.0 if PRODUCT else 0.0
    LEAST: tl.constexpr = float("inf") if KIND == "min" else float("-inf")
    OTHER: tl.constexpr = LEAST if KIND == "max" or KIND == "min" else NOTHING
    row = tl.program_id(0).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    # Rows past the end repeat the last one and are not stored, so that no load needs their mask.
    base = row_offset(tl.minimum(row, rows - 1), n1, n2, s0, s1, s2)
    scale = 1.0
    if KIND == "squares":
        scale = tl.expand_dims(tl.load(scales + tl.minimum(row, rows - 1)), AXIS)
    UNIT: tl.constexpr = 128 // x.dtype.element_ty.primitive_bitwidth
    if ALIGNED:
        base = tl.multiple_of(base, UNIT)
    base = tl.expand_dims(base, AXIS)
    lane = tl.expand_dims(tl.arange(0, BLOCK_R), 1 - AXIS)
    SHAPE: tl.constexpr = [BLOCK_R, BLOCK_K] if AXIS == 0 else [BLOCK_K, BLOCK_R]
    total = tl.full(SHAPE, float("-inf") if EXTREME else NOTHING, tl.float32)
    cuts = tl.maximum((m1 + chunk1 - 1) // chunk1, 1)
    r0 = tl.program_id(1) // cuts * chunk0
    end0 = tl.minimum(r0 + chunk0, m0)
    begin1 = tl.program_id(1) % cuts * chunk1
    end1 = tl.minimum(begin1 + chunk1, m1)
    while r0 < end0:
        at = begin1
        if ALIGNED:
            while at + BLOCK_R <= end1:
                start = tl.multiple_of(r0 * t0 + at, UNIT)
                pointers = tl.multiple_of(x + (base + (start + lane)), (1, 16))
                value = _part(tl.load(pointers).to(tl.float32), scale, KIND)
                if EXTREME:
                    total = tl.where((value > total) | (value != value), value, total)
                elif PRODUCT:
                    total *= value
                else:
                    total += value
                at += BLOCK_R
        while at < end1:
            r1 = at + lane
            pointers = x + (base + (r0 * t0 + r1 * t1))
            value = _part(
                tl.load(pointers, mask=r1 < end1, other=OTHER).to(tl.float32), scale, KIND
            )
            if EXTREME:
                # A total that is NaN compares false with everything, so it stays.
                total = tl.where((value > total) | (value != value), value, total)
            elif PRODUCT:
                total *= value
            else:
                total += value
            at += BLOCK_R
        r0 += 1
    if EXTREME:
        result = maximum_along(total, AXIS)
        if KIND == "min":
            result = -result
    elif PRODUCT:
        result = product_along(total, lane, AXIS, BLOCK_R)
    else:
        result = tl.div_rn(tl.sum(total, AXIS), divisor)
    place = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(z + place, result.to(z.dtype.element_ty), mask=row < rows)


def reduce(
    kind: str,
    x: Tensor,
    axes: tuple[int, ...],
    dtype: torch.dtype | None = None,
    wide: bool = True,
    divisor: int = 1,
    scales: Tensor | None = None,
) -> Tensor:
    """Reduce the distinct non-negative `axes` of x away, into fresh contiguous storage.

    A sum is divided by the divisor, once, before it is rounded to storage; by 1, that is exact.
    Before they are squared, the entries of a slice are divided by its one of the fp32 scales.
    A page that needs few compiled kernels more than 128-bit loads says that it is not `wide`.
    """
    checks.for_kernels(x)
    slices = walk(x, axes)
    chunks = _chunks(slices)
    splits = prod(-(-m // max(c, 1)) for m, c in zip(slices.lengths, chunks, strict=True)) or 1
    dtype = dtype or x.dtype
    shape = [x.shape[axis] for axis in slices.kept]
    if splits > 1:
        shape, final, dtype = [slices.rows, splits], (shape, dtype), torch.float32
    z = torch.empty(shape, dtype=dtype, device=x.device)
    block_k, block_r = slices.tile
    meta: dict[str, Any] = {
        "KIND": kind, "AXIS": 0 if slices.columns else 1, "ALIGNED": wide and slices.aligned,
        "BLOCK_K": block_k, "BLOCK_R": block_r, "num_warps": slices.warps,
    }  # fmt: skip
    grid = (-(-slices.rows // block_k), splits)
    once = float(divisor if splits == 1 else 1)
    by = z if scales is None else scales
    launch(_reduce_kernel, grid, z, slices.x, by, *slices.integers, *chunks, once, **meta)
    if splits == 1:
        return z
    rest = {SQUARES: SUM, MAGNITUDES: SUM, LARGEST: MAX}.get(kind, kind)
    return reduce(rest, z, (1,), final[1], wide, divisor).reshape(final[0])


def _chunks(slices: Rows) -> tuple[int, int]:
    """Cut long slices of few rows: how many steps of each merged axis one program takes."""
    (m0, m1), chunk = slices.lengths, slices.chunk
    wanted = 1
    if m0 * m1 > 2 * chunk:
        tiles = -(-slices.rows // slices.tile[0])
        wanted = min(-(-m0 * m1 // chunk), max(1, PROGRAMS // tiles))
    inner = min(wanted, -(-m1 // chunk))
    outer = min(-(-wanted // inner), m0) if inner else 1
    block = slices.tile[1]
    return max(1, -(-m0 // max(outer, 1))), max(1, -(-m1 // (max(inner, 1) * block)) * block)
