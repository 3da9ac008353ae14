"""Twin of spec.ops.softmax.

One pass over a row that fits a block; over a longer one, a pass for the maximum and the sum of
exponentials and a pass for the result (fast.kernels.rows.softmaxes). Saved: x, and per row, in
fp32, that maximum and that sum, from which the VJP recomputes the result before it was rounded to
storage.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import computed_in
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.examples import along_axis
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import rowwise, softmaxes

_SIZES = ["rows", "n", "inner", "xa", "xn", "xb", "ga", "gn", "gb"]


@triton.jit
def _probability(shifted, total):
    return tl.div_rn(tl.exp(shifted), total)


@triton.jit
def _share(x, start, at, n, step, maximum, over, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """Return the probabilities of a block, 0 past the end."""
    here = rowwise.block(x, start, at, n, step, float("-inf"), UNIT, BLOCK)
    return tl.exp(here - maximum) * over


@triton.jit
def _sent_back(share, cotangent, total):
    return share * (cotangent - total)


@triton.jit(do_not_specialize=_SIZES,
            do_not_specialize_on_alignment=["dx", "x", "maxima", "sums", "g"])  # fmt: skip
def _vjp_kernel(
    dx, x, maxima, sums, g, rows: tl.int64, n: tl.int32, inner: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64, ga: tl.int64, gn: tl.int64, gb: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = rowwise.starts(row, inner, xa, xb)
    from_g = rowwise.starts(row, inner, ga, gb)
    out = rowwise.starts(row, inner, n * inner, 1)
    maximum = tl.load(maxima + row)[:, None]
    over = tl.div_rn(1.0, tl.load(sums + row))[:, None]
    share = _share(x, start, 0, n, xn, maximum, over, UNIT, BLOCK)
    cotangent = rowwise.block(g, from_g, 0, n, gn, 0.0, UNIT, BLOCK)
    total = tl.sum(share * cotangent, 1)
    for at in range(BLOCK, n, BLOCK):
        later = _share(x, start, at, n, xn, maximum, over, UNIT, BLOCK)
        total += tl.sum(later * rowwise.block(g, from_g, at, n, gn, 0.0, UNIT, BLOCK), 1)
    total = total[:, None]
    rowwise.keep(dx, out, 0, n, inner, _sent_back(share, cotangent, total), live, UNIT, BLOCK)
    for at in range(BLOCK, n, BLOCK):
        share = _share(x, start, at, n, xn, maximum, over, UNIT, BLOCK)
        cotangent = rowwise.block(g, from_g, at, n, gn, 0.0, UNIT, BLOCK)
        rowwise.keep(dx, out, at, n, inner, _sent_back(share, cotangent, total), live, UNIT, BLOCK)


def check(x: Tensor, *, axis: int = -1) -> None:
    """Refuse an axis that x does not have (C1)."""
    checks.floats("softmax", x)
    checks.axis("softmax C1", x.dim(), axis)


def value(x: Tensor, *, axis: int = -1) -> tuple[Tensor, Saved]:
    """Normalize exponentials along the axis."""
    return softmaxes.value_by(_probability, x, axis)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return z * (g - sum(z * g))."""
    return (softmaxes.vjp(_vjp_kernel, saved, cotangent),) if needs[0] else (None,)


def aten_value(x: Tensor, *, axis: int = -1) -> tuple[Tensor, Saved]:
    """Normalize exponentials along the axis."""
    return torch.softmax(x, axis, dtype=computed_in(x.dtype)).to(x.dtype), (x, axis)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return z * (g - sum(z * g))."""
    if not needs[0]:
        return (None,)
    x, axis = saved
    wide = computed_in(x.dtype)
    share = torch.softmax(x, axis, dtype=wide)
    total = (share * cotangent).sum(axis, keepdim=True)
    return (share.mul_(cotangent - total).to(x.dtype),)


EXAMPLES = along_axis
op = Op("softmax", check, value, vjp, aten_value, aten_vjp, inputs=("x",), attributes={"axis": -1})
