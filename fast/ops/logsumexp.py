"""Twin of spec.ops.logsumexp.

One pass over a row finds its maximum and its sum of exponentials together; axes that lie side by
side are one row (fast.kernels.rows.rowwise), others are brought together by a copy. Saved: x, and
per row, in fp32, that maximum and that sum, from which the VJP recomputes the exponentials.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import reduction
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import rowwise, softmaxes
from fast.kernels.rows.reduce import inverse
from fast.ops.max import widened

Axes = tuple[int, ...] | None
_SIZES = ["rows", "n", "inner"]


@triton.jit
def _finite(maximum):
    """Return by how much a row is shifted: an infinite maximum is no shift."""
    return tl.where(tl.abs(maximum) == float("inf"), 0.0, maximum)


@triton.jit(do_not_specialize=[*_SIZES, "xa", "xn", "xb"],
            do_not_specialize_on_alignment=["z", "maxima", "sums", "x"])  # fmt: skip
def _value_kernel(
    z, maxima, sums, x, rows: tl.int64, n: tl.int32, inner: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = rowwise.starts(row, inner, xa, xb)
    here = rowwise.block(x, start, 0, n, xn, float("-inf"), UNIT, BLOCK)
    maximum = tl.max(here, 1)
    total = tl.sum(tl.exp(here - _finite(maximum)[:, None]), 1)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.block(x, start, at, n, xn, float("-inf"), UNIT, BLOCK)
        larger = tl.maximum(maximum, tl.max(here, 1))
        shift = _finite(larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(here - shift[:, None]), 1)
        maximum = larger
    tl.store(maxima + row, maximum, mask=live)
    tl.store(sums + row, total, mask=live)
    result = tl.log(total) + _finite(maximum)
    tl.store(z + row, result.to(z.dtype.element_ty), mask=live)


@triton.jit(do_not_specialize=[*_SIZES, "xa", "xn", "xb"],
            do_not_specialize_on_alignment=["dx", "x", "maxima", "sums", "g"])  # fmt: skip
def _vjp_kernel(
    dx, x, maxima, sums, g, rows: tl.int64, n: tl.int32, inner: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = rowwise.starts(row, inner, xa, xb)
    out = rowwise.starts(row, inner, n * inner, 1)
    maximum = tl.load(maxima + row)
    total = tl.load(sums + row)
    # Only the sum of a row of minus infinity is 0.
    rate = tl.div_rn(tl.load(g + row).to(tl.float32), tl.where(total == 0.0, 1.0, total))
    rate = tl.where(total == 0.0, 0.0, rate)[:, None]
    for at in range(0, n, BLOCK):
        here = rowwise.block(x, start, at, n, xn, float("-inf"), UNIT, BLOCK)
        result = softmaxes.powers(here, maximum) * rate
        rowwise.keep(dx, out, at, n, inner, result, live, UNIT, BLOCK)


def check(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> None:
    """Refuse axes out of range (C1), given twice (C2) or empty (C3)."""
    checks.floats("logsumexp", x)
    gone = checks.axes("logsumexp", x.dim(), axes)
    if any(x.shape[axis] == 0 for axis in gone):
        came = f"axes {gone} of {tuple(x.shape)}"
        raise Rejected(f"logsumexp C3: no reduced axis is empty, got {came}")


def value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Add exponentials along the axes, and take the logarithm."""
    checks.for_kernels(x)
    gone = checks.axes("logsumexp", x.dim(), axes)
    source, order = rowwise.joined(x, gone)
    outer, n, inner = source.shape
    maxima, sums = rowwise.statistic(source), rowwise.statistic(source)
    z = torch.empty(_shape(x, gone, keepdims), dtype=x.dtype, device=x.device)
    if z.numel():
        meta = rowwise.tile(source)
        launch(
            _value_kernel, (-(-outer * inner // meta["ROWS"]),), z, maxima, sums, source,
            outer * inner, n, inner, *source.stride(), **meta,
        )  # fmt: skip
    return z, (x, source, order, maxima, sums)


def _shape(x: Tensor, gone: tuple[int, ...], keepdims: bool) -> list[int]:
    if keepdims:
        return widened(x, gone)
    return [size for axis, size in enumerate(x.shape) if axis not in gone]


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return e^(x - maximum) * (g / sum)."""
    if not needs[0]:
        return (None,)
    x, source, order, maxima, sums = saved
    outer, n, inner = source.shape
    dx = torch.empty([x.shape[axis] for axis in order], dtype=x.dtype, device=x.device)
    if dx.numel():
        meta = rowwise.tile(source, dx.view(outer, n, inner))
        launch(
            _vjp_kernel, (-(-outer * inner // meta["ROWS"]),), dx, source, maxima, sums,
            cotangent.contiguous(), outer * inner, n, inner, *source.stride(), **meta,
        )  # fmt: skip
    return (dx.permute(inverse(order)),)


def aten_value(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> tuple[Tensor, Saved]:
    """Add exponentials along the axes, and take the logarithm, computed wide."""
    gone = checks.axes("logsumexp", x.dim(), axes)
    x32 = wide(x)
    largest = torch.amax(x32, gone, keepdim=True) if gone else x32
    shift = largest.masked_fill(largest.isinf(), 0.0)
    total = (x32 - shift).exp_()
    total = total.sum(gone, keepdim=True) if gone else total
    z = (total.log() + shift).to(x.dtype)
    return z.reshape(_shape(x, gone, keepdims)), (x, largest, total)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return e^(x - maximum) * (g / sum), computed wide."""
    if not needs[0]:
        return (None,)
    x, largest, total = saved
    shift = largest.masked_fill(total == 0, 0.0)
    rate = (wide(cotangent).reshape(total.shape) / total).masked_fill_(total == 0, 0.0)
    return ((wide(x) - shift).exp_().mul_(rate).to(x.dtype),)


EXAMPLES = reduction
op = Op(
    "logsumexp", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axes": None, "keepdims": False},
)  # fmt: skip
