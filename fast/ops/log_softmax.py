"""Twin of spec.ops.log_softmax.

One pass over a row that fits a block; over a longer one, a pass for the maximum and the sum of
exponentials and a pass for the result (fast.kernels.rows.softmaxes). Saved: x, and per row, in
fp32, that maximum and that sum; the VJP recomputes the exponentials and divides by the sum once per
row.
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
def _logarithm(shifted, total):
    return shifted - tl.log(total)


@triton.jit
def _sent_back(shifted, cotangent, share):
    return cotangent - tl.exp(shifted) * share


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
    here = rowwise.block(x, start, 0, n, xn, 0.0, UNIT, BLOCK)
    cotangent = rowwise.block(g, from_g, 0, n, gn, 0.0, UNIT, BLOCK)
    total = tl.sum(cotangent, 1)
    for at in range(BLOCK, n, BLOCK):
        total += tl.sum(rowwise.block(g, from_g, at, n, gn, 0.0, UNIT, BLOCK), 1)
    share = tl.div_rn(total, tl.load(sums + row))[:, None]
    result = _sent_back(here - maximum, cotangent, share)
    rowwise.keep(dx, out, 0, n, inner, result, live, UNIT, BLOCK)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.block(x, start, at, n, xn, 0.0, UNIT, BLOCK)
        cotangent = rowwise.block(g, from_g, at, n, gn, 0.0, UNIT, BLOCK)
        result = _sent_back(here - maximum, cotangent, share)
        rowwise.keep(dx, out, at, n, inner, result, live, UNIT, BLOCK)


def check(x: Tensor, *, axis: int = -1) -> None:
    """Refuse an axis that x does not have (C1)."""
    checks.floats("log_softmax", x)
    checks.axis("log_softmax C1", x.dim(), axis)


def value(x: Tensor, *, axis: int = -1) -> tuple[Tensor, Saved]:
    """Take the logarithm of the softmax along the axis."""
    return softmaxes.value_by(_logarithm, x, axis)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g - softmax(x) * sum(g)."""
    return (softmaxes.vjp(_vjp_kernel, saved, cotangent),) if needs[0] else (None,)


def aten_value(x: Tensor, *, axis: int = -1) -> tuple[Tensor, Saved]:
    """Take the logarithm of the softmax along the axis."""
    return torch.log_softmax(x, axis, dtype=computed_in(x.dtype)).to(x.dtype), (x, axis)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g - softmax(x) * sum(g)."""
    if not needs[0]:
        return (None,)
    x, axis = saved
    wide = computed_in(x.dtype)
    share = torch.softmax(x, axis, dtype=wide)
    total = cotangent.sum(axis, keepdim=True, dtype=wide)
    return (torch.addcmul(cotangent.to(wide), share, total, value=-1).to(x.dtype),)


EXAMPLES = along_axis
op = Op(
    "log_softmax", check, value, vjp, aten_value, aten_vjp, inputs=("x",), attributes={"axis": -1}
)
