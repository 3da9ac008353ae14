"""Twin of spec.ops.masked_softmax.

As softmax, with a mask that is read beside each block, as bytes (fast.kernels.rows.rowwise): what
is masked is minus infinity to the statistics, and its result is chosen, whatever was computed.
Saved: x, the mask, and per row, in fp32, the maximum and the sum of exponentials of what passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import computed_in
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.examples import Example, along_axis
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import rowwise, softmaxes

_SIZES = ["rows", "n", "inner"]


@triton.jit
def _passing(x, mask, xs, ms, at, n, xn, mn, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """Read columns of rows, minus infinity where they are masked, and what passes."""
    passes = rowwise.block(mask, ms, at, n, mn, 0, UNIT, BLOCK) != 0
    here = rowwise.block(x, xs, at, n, xn, 0.0, UNIT, BLOCK)
    return tl.where(passes, here, float("-inf")), passes


@triton.jit(do_not_specialize=[*_SIZES, "xa", "xn", "xb", "ma", "mn", "mb"],
            do_not_specialize_on_alignment=["z", "maxima", "sums", "x", "mask"])  # fmt: skip
def _value_kernel(
    z, maxima, sums, x, mask, rows: tl.int64, n: tl.int32, inner: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64, ma: tl.int64, mn: tl.int64, mb: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    xs = rowwise.starts(row, inner, xa, xb)
    ms = rowwise.starts(row, inner, ma, mb)
    out = rowwise.starts(row, inner, n * inner, 1)
    first, passes = _passing(x, mask, xs, ms, 0, n, xn, mn, UNIT, BLOCK)
    maximum = tl.max(first, 1)
    total = tl.sum(softmaxes.powers(first, maximum), 1)
    for at in range(BLOCK, n, BLOCK):
        here, _ = _passing(x, mask, xs, ms, at, n, xn, mn, UNIT, BLOCK)
        maximum, total = softmaxes.grown(maximum, total, here)
    tl.store(maxima + row, maximum, mask=live)
    tl.store(sums + row, total, mask=live)
    total = total[:, None]
    result = tl.div_rn(tl.exp(first - maximum[:, None]), total)
    result = tl.where(passes, result, 0.0)
    rowwise.keep(z, out, 0, n, inner, result, live, UNIT, BLOCK)
    for at in range(BLOCK, n, BLOCK):
        here, passes = _passing(x, mask, xs, ms, at, n, xn, mn, UNIT, BLOCK)
        result = tl.div_rn(tl.exp(here - maximum[:, None]), total)
        result = tl.where(passes, result, 0.0)
        rowwise.keep(z, out, at, n, inner, result, live, UNIT, BLOCK)


@triton.jit
def _shares(
    x, mask, g, xs, ms, gs, at, n, xn, mn, gn, maximum, over,
    UNIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return the probabilities of a block, -1 where it is masked, and its cotangents, 0 there."""
    here, passes = _passing(x, mask, xs, ms, at, n, xn, mn, UNIT, BLOCK)
    cotangent = rowwise.block(g, gs, at, n, gn, 0.0, UNIT, BLOCK)
    share = tl.where(passes, tl.exp(here - maximum) * over, -1.0)
    return share, tl.where(passes, cotangent, 0.0)


@triton.jit
def _sent_back(share, cotangent, total):
    return tl.where(share == -1.0, 0.0, share * (cotangent - total))


@triton.jit(
    do_not_specialize=[*_SIZES, "xa", "xn", "xb", "ma", "mn", "mb", "ga", "gn", "gb"],
    do_not_specialize_on_alignment=["dx", "x", "mask", "maxima", "sums", "g"],
)
def _vjp_kernel(
    dx, x, mask, maxima, sums, g, rows: tl.int64, n: tl.int32, inner: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64, ma: tl.int64, mn: tl.int64, mb: tl.int64,
    ga: tl.int64, gn: tl.int64, gb: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    xs = rowwise.starts(row, inner, xa, xb)
    ms = rowwise.starts(row, inner, ma, mb)
    gs = rowwise.starts(row, inner, ga, gb)
    out = rowwise.starts(row, inner, n * inner, 1)
    maximum = tl.load(maxima + row)[:, None]
    over = tl.div_rn(1.0, tl.load(sums + row))[:, None]
    share, cotangent = _shares(x, mask, g, xs, ms, gs, 0, n, xn, mn, gn, maximum, over, UNIT, BLOCK)
    total = tl.sum(share * cotangent, 1)
    for at in range(BLOCK, n, BLOCK):
        later, sent = _shares(x, mask, g, xs, ms, gs, at, n, xn, mn, gn, maximum, over, UNIT, BLOCK)
        total += tl.sum(later * sent, 1)
    total = total[:, None]
    result = _sent_back(share, cotangent, total)
    rowwise.keep(dx, out, 0, n, inner, result, live, UNIT, BLOCK)
    for at in range(BLOCK, n, BLOCK):
        share, cotangent = _shares(
            x, mask, g, xs, ms, gs, at, n, xn, mn, gn, maximum, over, UNIT, BLOCK
        )
        result = _sent_back(share, cotangent, total)
        rowwise.keep(dx, out, at, n, inner, result, live, UNIT, BLOCK)


def check(x: Tensor, mask: Tensor, *, axis: int = -1) -> None:
    """Refuse shapes that differ (C1), a mask that is not boolean (C2), another axis (C3)."""
    checks.masked("masked_softmax", "C2", x, mask)
    checks.axis("masked_softmax C3", x.dim(), axis)


def value(x: Tensor, mask: Tensor, *, axis: int = -1) -> tuple[Tensor, Saved]:
    """Normalize the exponentials that pass along the axis."""
    return softmaxes.value(_value_kernel, x, axis, mask)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return z * (g - sum(z * g)), and 0 where it is masked."""
    return (softmaxes.vjp(_vjp_kernel, saved, cotangent) if needs[0] else None), None


def _wide(x: Tensor, mask: Tensor, axis: int) -> Tensor:
    """Return the probabilities in the dtype of computation."""
    share = torch.softmax(x.masked_fill(~mask, -math.inf), axis, dtype=computed_in(x.dtype))
    return share.masked_fill_(~mask, 0)


def aten_value(x: Tensor, mask: Tensor, *, axis: int = -1) -> tuple[Tensor, Saved]:
    """Normalize the exponentials that pass along the axis."""
    return _wide(x, mask, axis).to(x.dtype), (x, mask, axis)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return z * (g - sum(z * g)), and 0 where it is masked."""
    if not needs[0]:
        return None, None
    x, mask, axis = saved
    share, g = _wide(x, mask, axis), cotangent.masked_fill(~mask, 0)
    total = (share * g).sum(axis, keepdim=True)
    dx = share.mul_(g - total).masked_fill_(~mask, 0)
    return dx.to(x.dtype), None


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a mask for each example along an axis."""
    for (x,), attributes in along_axis(dtype):
        yield (x, x > 0), attributes


op = Op(
    "masked_softmax", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "mask"), index_inputs=(1,), mask_inputs=(1,), attributes={"axis": -1},
)  # fmt: skip
