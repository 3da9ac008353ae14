"""Twin of spec.ops.max.

NaN propagates by explicit comparisons, because the compiled and the interpreted `tl.max` differ.
The gradient is one launch that walks each slice twice: it counts the entries that tie for the
largest (for a NaN result: the NaN entries), then writes their equal shares. It is not cut into
chunks, so a few very long slices are slow.

What is saved for the gradient is the largest in fp32, as the reduction found it: an entry that is
read again compares equal with that, whatever storing it in 16 bits did to a subnormal number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import Example, reduction
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows.reduce import INTEGERS, MAX, inverse, reduce, row_offset, walk

Axes = tuple[int, ...] | None


@triton.jit(
    do_not_specialize=[*INTEGERS, "zr", "zt"],
    do_not_specialize_on_alignment=["z", "x", "largest", "g"],
)
def _vjp_kernel(
    z, x, largest, g, zr: tl.int64, zt: tl.int64,
    rows: tl.int64, n1: tl.int64, n2: tl.int64, s0: tl.int64, s1: tl.int64, s2: tl.int64,
    m0: tl.int64, m1: tl.int64, t0: tl.int64, t1: tl.int64,
    AXIS: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_K + tl.arange(0, BLOCK_K)
    inside = tl.expand_dims(row < rows, AXIS)
    row = tl.minimum(row, rows - 1)
    base = tl.expand_dims(row_offset(row, n1, n2, s0, s1, s2), AXIS)
    lane = tl.expand_dims(tl.arange(0, BLOCK_R), 1 - AXIS)
    most = tl.expand_dims(tl.load(largest + row).to(tl.float32), AXIS)
    SHAPE: tl.constexpr = [BLOCK_R, BLOCK_K] if AXIS == 0 else [BLOCK_K, BLOCK_R]
    count = tl.full(SHAPE, 0.0, tl.float32)
    r0 = m0 * 0
    while r0 < m0:
        at = m1 * 0
        while at < m1:
            r1 = at + lane
            value = tl.load(x + (base + (r0 * t0 + r1 * t1)), mask=r1 < m1, other=0).to(tl.float32)
            count += ((r1 < m1) & ((value == most) | (value != value))).to(tl.float32)
            at += BLOCK_R
        r0 += 1
    share = tl.div_rn(tl.load(g + row).to(tl.float32), tl.sum(count, AXIS))
    share = tl.expand_dims(share, AXIS)
    row = tl.expand_dims(row, AXIS)
    r0 = m0 * 0
    while r0 < m0:
        at = m1 * 0
        while at < m1:
            r1 = at + lane
            value = tl.load(x + (base + (r0 * t0 + r1 * t1)), mask=r1 < m1, other=0).to(tl.float32)
            part = tl.where((value == most) | (value != value), share, 0.0)
            place = row * zr + (r0 * m1 + r1) * zt
            tl.store(z + place, part.to(z.dtype.element_ty), mask=inside & (r1 < m1))
            at += BLOCK_R
        r0 += 1


def check(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> None:
    """Refuse axes out of range (C1), given twice (C2) or empty (C3)."""
    checks.floats("max", x)
    gone = checks.axes("max", x.dim(), axes)
    if any(x.shape[axis] == 0 for axis in gone):
        raise Rejected(f"max C3: no reduced axis is empty, got axes {gone} of {tuple(x.shape)}")


def value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Take the largest along the axes; the input and the largest are saved."""
    gone = checks.axes("max", x.dim(), axes)
    largest = reduce(MAX, x, gone, torch.float32, wide=False)
    z = largest.to(x.dtype)
    return z.reshape(widened(x, gone)) if keepdims else z, (x, largest, gone)


def widened(x: Tensor, gone: tuple[int, ...]) -> list[int]:
    """Return the shape of x with 1 in place of what is reduced."""
    return [1 if axis in gone else size for axis, size in enumerate(x.shape)]


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Divide the cotangent equally among the entries that tie."""
    if not needs[0]:
        return (None,)
    x, largest, gone = saved
    slices = walk(x, gone)
    kept_shape = [x.shape[axis] for axis in slices.kept]
    gone_shape = [x.shape[axis] for axis in slices.gone]
    length = slices.lengths[0] * slices.lengths[1]
    # Written with the tile's fast axis contiguous, and returned as a view in the order of x.
    order = (*slices.gone, *slices.kept) if slices.columns else (*slices.kept, *slices.gone)
    shape = (*gone_shape, *kept_shape) if slices.columns else (*kept_shape, *gone_shape)
    z = torch.empty(shape, dtype=x.dtype, device=x.device)
    if z.numel():
        block_k, block_r = slices.tile
        launch(
            _vjp_kernel, (-(-slices.rows // block_k),), z, slices.x, largest,
            cotangent.contiguous(), *((1, slices.rows) if slices.columns else (length, 1)),
            *slices.integers, AXIS=0 if slices.columns else 1, BLOCK_K=block_k, BLOCK_R=block_r,
            num_warps=8,
        )  # fmt: skip
    return (z.permute(inverse(order)),)


def aten_value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Take the largest along the axes; torch reads an empty tuple as all axes."""
    gone = checks.axes("max", x.dim(), axes)
    if not gone:
        z = x.clone(memory_format=torch.contiguous_format)
        return z, (x, z, gone)
    z = torch.amax(x, gone, keepdim=True)
    return z if keepdims else z.squeeze(gone), (x, z, gone)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Divide the cotangent equally among the entries that tie."""
    x, largest, gone = saved
    if not needs[0]:
        return (None,)
    tie = (x == largest).logical_or_(x != x)
    g = cotangent.reshape(largest.shape)
    if gone:
        g = wide(g) / tie.sum(gone, keepdim=True)
    return (torch.where(tie, g.to(x.dtype), 0.0),)


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield what reductions do, but for the long row."""
    yield from list(reduction(dtype))[:3]


op = Op(
    "max", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axes": None, "keepdims": False},
)  # fmt: skip
