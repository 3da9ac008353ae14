"""What softmaxes share: the statistics of rows, and kernels that map rows to rows by them.

One pass over a row finds its maximum and its sum of e^(x - maximum), both fp32. What a softmax or
its logarithm makes of an entry is the page's formula, a `@triton.jit` function of fp32 tiles: it
takes x - maximum, and that sum.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.page import Saved
from fast.kernels.rows import rowwise


@triton.jit
def powers(x, maximum):
    """Return e^(x - maximum), and 0 rather than NaN in rows that hold only -inf so far."""
    shift = tl.where(maximum == float("-inf"), 0.0, maximum)
    return tl.exp(x - shift[:, None])


@triton.jit
def grown(maximum, total, here):
    """Return the maximum and the sum of e^(x - maximum) of rows that another block lengthens."""
    larger = tl.maximum(maximum, tl.max(here, 1))
    shift = tl.where(larger == float("-inf"), 0.0, larger)
    return larger, total * tl.exp(maximum - shift) + tl.sum(powers(here, larger), 1)


@triton.jit
def statistics(first, x, start, n, step, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """Return each row's maximum and its sum of e^(x - maximum), in one pass.

    `first` is the first block, read with -inf past the end. A later block that raises the maximum
    scales the sum so far. NaN reaches the sum, whatever a maximum does with it.
    """
    maximum = tl.max(first, 1)
    total = tl.sum(powers(first, maximum), 1)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.block(x, start, at, n, step, float("-inf"), UNIT, BLOCK)
        maximum, total = grown(maximum, total, here)
    return maximum, total


@triton.jit(do_not_specialize=["rows", "n", "inner", "xa", "xn", "xb"],
            do_not_specialize_on_alignment=["z", "maxima", "sums", "x"])  # fmt: skip
def _value_kernel(
    z, maxima, sums, x, rows: tl.int64, n: tl.int32, inner: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64,
    FN: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = rowwise.starts(row, inner, xa, xb)
    out = rowwise.starts(row, inner, n * inner, 1)
    first = rowwise.block(x, start, 0, n, xn, float("-inf"), UNIT, BLOCK)
    maximum, total = statistics(first, x, start, n, xn, UNIT, BLOCK)
    tl.store(maxima + row, maximum, mask=live)
    tl.store(sums + row, total, mask=live)
    maximum, total = maximum[:, None], total[:, None]
    rowwise.keep(z, out, 0, n, inner, FN(first - maximum, total), live, UNIT, BLOCK)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.block(x, start, at, n, xn, 0.0, UNIT, BLOCK)
        rowwise.keep(z, out, at, n, inner, FN(here - maximum, total), live, UNIT, BLOCK)


def _readable(x: Tensor, axis: int) -> Tensor:
    """View a tensor as its rows, a mask as bytes: that is for kernels, and not to be saved."""
    return rowwise.view(x.view(torch.uint8) if x.dtype is torch.bool else x, axis)


def value(
    kernel: Any, x: Tensor, axis: int, *beside: Tensor, **formula: Any
) -> tuple[Tensor, Saved]:
    """Launch a kernel that maps rows to rows and leaves their maxima and sums.

    It reads x, and what has x's shape beside it; both are saved.
    """
    checks.for_kernels(x)
    operands = (x, *beside)
    sources = [_readable(operand, axis) for operand in operands]
    outer, n, inner = sources[0].shape
    maxima, sums = rowwise.statistic(sources[0]), rowwise.statistic(sources[0])
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    meta = rowwise.tile(*sources, z.view(outer, n, inner))
    if n:
        launch(
            kernel, (-(-outer * inner // meta["ROWS"]),), z, maxima, sums, *sources,
            outer * inner, n, inner, *(s for source in sources for s in source.stride()), **formula,
            **meta,
        )  # fmt: skip
    return z, (*operands, maxima, sums, axis)


def value_by(fn: Any, x: Tensor, axis: int) -> tuple[Tensor, Saved]:
    """Map rows to rows by a page's formula."""
    return value(_value_kernel, x, axis, FN=fn)


def vjp(kernel: Any, saved: Saved, cotangent: Tensor) -> Tensor:
    """Launch the kernel of the VJP of what `value` launched."""
    *operands, maxima, sums, axis = saved
    x = operands[0]
    sources, g = [_readable(operand, axis) for operand in operands], rowwise.view(cotangent, axis)
    outer, n, inner = g.shape
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    meta = rowwise.tile(*sources, g, dx.view(outer, n, inner))
    if n:
        launch(
            kernel, (-(-outer * inner // meta["ROWS"]),), dx, *sources, maxima, sums, g,
            outer * inner, n, inner, *(s for source in (*sources, g) for s in source.stride()),
            **meta,
        )  # fmt: skip
    return dx
