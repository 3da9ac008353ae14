"""Twin of spec.ops.softmax.

One pass over a row that fits a block; over a longer one, a pass for the maximum and the sum of
exponentials and a pass for the result (fast._rows). Saved: x, and per row, in fp32, that maximum
and that sum, from which the VJP recomputes the result before it was rounded to storage.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast import _checks, _rows
from fast._device import tl, triton
from fast._examples import along_axis
from fast._op import Gradients, Op, Saved

_SIZES = ["rows", "n", "inner"]


@triton.jit(do_not_specialize=[*_SIZES, "xa", "xn", "xb"],
            do_not_specialize_on_alignment=["z", "maxima", "sums", "x"])  # fmt: skip
def _value_kernel(
    z, maxima, sums, x, rows: tl.int64, n: tl.int32, inner: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = _rows.length(n, UNIT)
    row, live = _rows.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = _rows.starts(row, inner, xa, xb)
    out = _rows.starts(row, inner, n * inner, 1)
    first = _rows.block(x, start, 0, n, xn, float("-inf"), UNIT, BLOCK)
    maximum, total = _rows.statistics(first, x, start, n, xn, UNIT, BLOCK)
    tl.store(maxima + row, maximum, mask=live)
    tl.store(sums + row, total, mask=live)
    total = total[:, None]
    result = tl.div_rn(tl.exp(first - maximum[:, None]), total)
    _rows.keep(z, out, 0, n, inner, result, live, UNIT, BLOCK)
    for at in range(BLOCK, n, BLOCK):
        here = _rows.block(x, start, at, n, xn, 0.0, UNIT, BLOCK)
        result = tl.div_rn(tl.exp(here - maximum[:, None]), total)
        _rows.keep(z, out, at, n, inner, result, live, UNIT, BLOCK)


@triton.jit(do_not_specialize=[*_SIZES, "xa", "xn", "xb", "ga", "gn", "gb"],
            do_not_specialize_on_alignment=["dx", "x", "maxima", "sums", "g"])  # fmt: skip
def _vjp_kernel(
    dx, x, maxima, sums, g, rows: tl.int64, n: tl.int32, inner: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64, ga: tl.int64, gn: tl.int64, gb: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = _rows.length(n, UNIT)
    row, live = _rows.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = _rows.starts(row, inner, xa, xb)
    from_g = _rows.starts(row, inner, ga, gb)
    out = _rows.starts(row, inner, n * inner, 1)
    maximum = tl.load(maxima + row)[:, None]
    over = tl.div_rn(1.0, tl.load(sums + row))[:, None]
    here = _rows.block(x, start, 0, n, xn, float("-inf"), UNIT, BLOCK)
    cotangent = _rows.block(g, from_g, 0, n, gn, 0.0, UNIT, BLOCK)
    share = tl.exp(here - maximum) * over
    total = tl.sum(share * cotangent, 1)
    for at in range(BLOCK, n, BLOCK):
        here = _rows.block(x, start, at, n, xn, float("-inf"), UNIT, BLOCK)
        later = _rows.block(g, from_g, at, n, gn, 0.0, UNIT, BLOCK)
        total += tl.sum(tl.exp(here - maximum) * over * later, 1)
    total = total[:, None]
    _rows.keep(dx, out, 0, n, inner, share * (cotangent - total), live, UNIT, BLOCK)
    for at in range(BLOCK, n, BLOCK):
        here = _rows.block(x, start, at, n, xn, float("-inf"), UNIT, BLOCK)
        cotangent = _rows.block(g, from_g, at, n, gn, 0.0, UNIT, BLOCK)
        share = tl.exp(here - maximum) * over
        _rows.keep(dx, out, at, n, inner, share * (cotangent - total), live, UNIT, BLOCK)


def check(x: Tensor, *, axis: int = -1) -> None:
    """Refuse an axis that x does not have (C1)."""
    _checks.floats("softmax", x)
    _checks.axis("softmax C1", x.dim(), axis)


def value(x: Tensor, *, axis: int = -1) -> tuple[Tensor, Saved]:
    """Normalize exponentials along the axis."""
    return _rows.value(_value_kernel, x, axis)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return z * (g - sum(z * g))."""
    return (_rows.vjp(_vjp_kernel, saved, cotangent),) if needs[0] else (None,)


def aten_value(x: Tensor, *, axis: int = -1) -> tuple[Tensor, Saved]:
    """Normalize exponentials along the axis."""
    if x.dtype is torch.bfloat16:
        return torch.softmax(x, axis, dtype=torch.float32).to(x.dtype), (x, axis)
    return torch.softmax(x, axis), (x, axis)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return z * (g - sum(z * g))."""
    if not needs[0]:
        return (None,)
    x, axis = saved
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    share = torch.softmax(x, axis, dtype=wide)
    total = (share * cotangent).sum(axis, keepdim=True)
    return (share.mul_(cotangent - total).to(x.dtype),)


EXAMPLES = along_axis
op = Op("softmax", check, value, vjp, aten_value, aten_vjp, inputs=("x",), attributes={"axis": -1})
