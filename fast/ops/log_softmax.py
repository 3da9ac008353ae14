"""Twin of spec.ops.log_softmax.

One pass over a row that fits a block; over a longer one, a pass for the maximum and the sum of
exponentials and a pass for the result (fast._rows). Saved: x, and per row, in fp32, that maximum
and that sum; the VJP recomputes the exponentials and divides by the sum once per row.
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
    log = tl.log(total)[:, None]
    _rows.keep(z, out, 0, n, inner, first - maximum[:, None] - log, live, UNIT, BLOCK)
    for at in range(BLOCK, n, BLOCK):
        here = _rows.block(x, start, at, n, xn, 0.0, UNIT, BLOCK)
        _rows.keep(z, out, at, n, inner, here - maximum[:, None] - log, live, UNIT, BLOCK)


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
    here = _rows.block(x, start, 0, n, xn, 0.0, UNIT, BLOCK)
    cotangent = _rows.block(g, from_g, 0, n, gn, 0.0, UNIT, BLOCK)
    total = tl.sum(cotangent, 1)
    for at in range(BLOCK, n, BLOCK):
        total += tl.sum(_rows.block(g, from_g, at, n, gn, 0.0, UNIT, BLOCK), 1)
    share = tl.div_rn(total, tl.load(sums + row))[:, None]
    result = cotangent - tl.exp(here - maximum) * share
    _rows.keep(dx, out, 0, n, inner, result, live, UNIT, BLOCK)
    for at in range(BLOCK, n, BLOCK):
        here = _rows.block(x, start, at, n, xn, 0.0, UNIT, BLOCK)
        cotangent = _rows.block(g, from_g, at, n, gn, 0.0, UNIT, BLOCK)
        result = cotangent - tl.exp(here - maximum) * share
        _rows.keep(dx, out, at, n, inner, result, live, UNIT, BLOCK)


def check(x: Tensor, *, axis: int = -1) -> None:
    """Refuse an axis that x does not have (C1)."""
    _checks.floats("log_softmax", x)
    _checks.axis("log_softmax C1", x.dim(), axis)


def value(x: Tensor, *, axis: int = -1) -> tuple[Tensor, Saved]:
    """Take the logarithm of the softmax along the axis."""
    return _rows.value(_value_kernel, x, axis)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g - softmax(x) * sum(g)."""
    return (_rows.vjp(_vjp_kernel, saved, cotangent),) if needs[0] else (None,)


def aten_value(x: Tensor, *, axis: int = -1) -> tuple[Tensor, Saved]:
    """Take the logarithm of the softmax along the axis."""
    if x.dtype is torch.bfloat16:
        return torch.log_softmax(x, axis, dtype=torch.float32).to(x.dtype), (x, axis)
    return torch.log_softmax(x, axis), (x, axis)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g - softmax(x) * sum(g)."""
    if not needs[0]:
        return (None,)
    x, axis = saved
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    share = torch.softmax(x, axis, dtype=wide)
    total = cotangent.sum(axis, keepdim=True, dtype=wide)
    return (torch.addcmul(cotangent.to(wide), share, total, value=-1).to(x.dtype),)


EXAMPLES = along_axis
op = Op(
    "log_softmax", check, value, vjp, aten_value, aten_vjp, inputs=("x",), attributes={"axis": -1}
)
