"""Twin of spec.ops.cumprod.

The kernel of fast.kernels.rows.rowwise keeps the products on the way, and for the gradient, in
fp32, those of what lies before each entry. Then one launch walks each row from its end, block by
block: an associative scan of pairs carries the cotangents back, and what it finds is multiplied by
what lies before. So the order is fixed, and nothing is divided. Saved: the input.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import computed_in, wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.examples import along_axis
from fast.kernels.page import REQUIRED, Gradients, Op, Saved
from fast.kernels.rows import rowwise

_SIZES = ["rows", "n", "inner"]
_STRIDES = ["xa", "xn", "xb", "ga", "gn", "gb"]


@triton.jit
def _after(a, s, factor, term):
    """Join two steps of the recurrence s a + term: the later one has factor and term."""
    return a * factor, s * factor + term


@triton.jit(do_not_specialize=[*_SIZES, *_STRIDES],
            do_not_specialize_on_alignment=["dx", "x", "g", "before"])  # fmt: skip
def _vjp_kernel(
    dx, x, g, before, rows: tl.int64, n: tl.int32, inner: tl.int64,
    xa: tl.int64, xn: tl.int64, xb: tl.int64, ga: tl.int64, gn: tl.int64, gb: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    of_x = rowwise.starts(row, inner, xa, xb)
    of_g = rowwise.starts(row, inner, ga, gb)
    out = rowwise.starts(row, inner, n * inner, 1)
    last = (tl.arange(0, BLOCK) == BLOCK - 1)[None, :]
    carried = tl.zeros((ROWS,), tl.float32)
    for at in range(0, n, BLOCK):
        step = at + tl.arange(0, BLOCK)
        inside = (step < n)[None, :]
        column = n - 1 - step
        # A step carries by the entry that it comes from, the first one by none.
        there = inside & (step > 0)[None, :]
        place = of_x[:, None] + ((column + 1) * xn)[None, :]
        factor = tl.load(x + place, mask=there, other=1.0).to(tl.float32)
        place = of_g[:, None] + (column * gn)[None, :]
        term = tl.load(g + place, mask=inside, other=0.0).to(tl.float32)
        factor, found = tl.associative_scan((factor, term), 1, _after)
        found = carried[:, None] * factor + found
        place = out[:, None] + (column * inner)[None, :]
        share = tl.load(before + place, mask=inside, other=0.0) * found
        tl.store(dx + place, share.to(dx.dtype.element_ty), mask=live[:, None] & inside)
        carried = tl.sum(tl.where(last, found, 0.0), 1)


def check(x: Tensor, *, axis: int) -> None:
    """Refuse an axis that x does not have (C1)."""
    checks.floats("cumprod", x)
    checks.axis("cumprod C1", x.dim(), axis)


def value(x: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Multiply the entries up to each one."""
    return rowwise.running(rowwise.PRODUCT, x, axis, False, False), (x, axis)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Carry cotangents back by each entry behind, and multiply by what lies before."""
    if not needs[0]:
        return (None,)
    x, axis = saved
    source, g = rowwise.view(x, axis), rowwise.view(cotangent, axis)
    before = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    rowwise.run_along(rowwise.PRODUCT, source, False, True, before)
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    outer, n, inner = source.shape
    meta = rowwise.tile(source, g, wide=False)
    if dx.numel():
        launch(
            _vjp_kernel, (-(-outer * inner // meta["ROWS"]),), dx, source, g, before,
            outer * inner, n, inner, *source.stride(), *g.stride(), **meta,
        )  # fmt: skip
    return (dx,)


def aten_value(x: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Multiply the entries up to each one, computed wide."""
    return torch.cumprod(x, axis, dtype=computed_in(x.dtype)).to(x.dtype), (x, axis)


def _shifted(x: Tensor) -> Tensor:
    """Put a 1 in front of each row [outer, n, inner], and drop its last entry."""
    first = x.new_ones((x.shape[0], 1, x.shape[2]))
    return torch.cat((first, x), 1).narrow(1, 0, x.shape[1])


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Carry cotangents back by doubling: each adds what lies 1, 2, 4 and so on places behind."""
    if not needs[0]:
        return (None,)
    x, axis = saved
    source = rowwise.view(wide(x), axis)
    found, factor = rowwise.view(wide(cotangent), axis).flip(1), _shifted(source.flip(1))
    n, step = source.shape[1], 1
    while step < n:
        own, rest = factor.narrow(1, step, n - step), n - step
        added = found.narrow(1, step, rest) + own * found.narrow(1, 0, rest)
        found = torch.cat((found.narrow(1, 0, step), added), 1)
        factor = torch.cat((factor.narrow(1, 0, step), own * factor.narrow(1, 0, rest)), 1)
        step *= 2
    share = _shifted(source).cumprod(1) * found.flip(1)
    return (share.to(x.dtype).reshape(x.shape),)


EXAMPLES = along_axis
op = Op(
    "cumprod", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"axis": REQUIRED},
)  # fmt: skip
