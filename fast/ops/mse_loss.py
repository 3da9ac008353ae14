"""Twin of spec.ops.mse_loss.

Difference, square and sum are one pass over contiguous inputs; others are copied first. Each
program adds up its part in fp32, and a reduction adds the parts up in a fixed order and divides.
Saved: the inputs, as they came. ATen's kernel of the gradient multiplies by a rounded 2 / n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks, pointwise
from fast.kernels.examples import Example
from fast.kernels.label_losses import REDUCTIONS
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.reduce import SUM, reduce

BLOCK = 1024
PART, PARTS = 4 * BLOCK, 512
"""How many entries a program adds up at least, and how many programs there are at most."""

_backward = torch.ops.aten.mse_loss_backward.default


@triton.jit
def _loss(x, y):
    return (x - y) * (x - y)


@triton.jit(do_not_specialize=["n", "blocks"])
def _flat_parts_kernel(parts, x, y, n: tl.int64, blocks: tl.int64, BLOCK: tl.constexpr):
    start = tl.program_id(0) * blocks * BLOCK
    end = tl.minimum(start + blocks * BLOCK, n)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    while start + BLOCK <= end:
        index = tl.multiple_of(start, BLOCK) + tl.arange(0, BLOCK)
        total += _loss(tl.load(x + index).to(tl.float32), tl.load(y + index).to(tl.float32))
        start += BLOCK
    if start < end:
        index = start + tl.arange(0, BLOCK)
        left = tl.load(x + index, mask=index < end, other=0).to(tl.float32)
        right = tl.load(y + index, mask=index < end, other=0).to(tl.float32)
        total += _loss(left, right)
    tl.store(parts + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def _write(dx, dy, needs, x, y, g, index, step, divisor, mask):
    share = tl.div_rn(tl.load(g + index * step, mask=mask).to(tl.float32), divisor)
    slope = tl.load(x + index, mask=mask).to(tl.float32) - tl.load(y + index, mask=mask)
    slope = 2.0 * slope * share
    if needs & 1:
        tl.store(dx + index, slope.to(dx.dtype.element_ty), mask=mask)
    if needs & 2:
        tl.store(dy + index, (-slope).to(dy.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["needs", "n", "step"], do_not_specialize_on_alignment=["g"])
def _flat_vjp_kernel(
    dx, dy, needs, x, y, g, n: tl.int64, step: tl.int64, divisor: tl.float32, BLOCK: tl.constexpr
):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    index = start + tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        _write(dx, dy, needs, x, y, g, index, step, divisor, None)
    else:
        _write(dx, dy, needs, x, y, g, index, step, divisor, index < n)


def check(x: Tensor, y: Tensor, *, reduction: str = "mean") -> None:
    """Refuse shapes that differ (C1), an unknown reduction (C2), and a mean of nothing (C3)."""
    checks.pair("mse_loss", x, y)
    if reduction not in REDUCTIONS:
        raise Rejected(f"mse_loss C2: the reduction is 'mean', 'sum' or 'none', got {reduction!r}")
    if reduction == "mean" and x.numel() == 0:
        raise Rejected(
            f"mse_loss C3: for 'mean' there is at least one entry, got shape {tuple(x.shape)}"
        )


def _dense(x: Tensor) -> Tensor:
    """Return x where a flat kernel can read it, else a copy."""
    if x.is_contiguous() and x.data_ptr() % 16 == 0:
        return x
    return x.clone(memory_format=torch.contiguous_format)


def value(x: Tensor, y: Tensor, *, reduction: str = "mean") -> tuple[Tensor, Saved]:
    """Add up the squared differences, or keep them; both inputs are saved."""
    saved = (x, y, reduction)
    left, right, n = _dense(x), _dense(y), x.numel()
    if reduction == "none":
        return pointwise.value(_loss, left, right), saved
    checks.for_kernels(x)
    count = max(1, min(PARTS, -(-n // PART)))
    parts = torch.empty(count, dtype=torch.float32, device=x.device)
    blocks = -(-n // (count * BLOCK))
    launch(_flat_parts_kernel, (count,), parts, left, right, n, blocks, BLOCK=BLOCK)
    divisor = n if reduction == "mean" else 1
    return reduce(SUM, parts, (0,), x.dtype, wide=False, divisor=divisor), saved


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return 2 (x - y) g, divided where the loss was, and its opposite."""
    x, y, reduction = saved
    n, divisor = x.numel(), float(x.numel() if reduction == "mean" else 1)
    dx, dy = (torch.empty(x.shape, dtype=x.dtype, device=x.device) if k else None for k in needs)
    z = dx if dy is None else dy
    if z is None:
        return None, None
    launch(
        _flat_vjp_kernel, (-(-n // BLOCK),), z if dx is None else dx, z, needs[0] + 2 * needs[1],
        _dense(x), _dense(y), cotangent.contiguous(), n, int(reduction == "none"), divisor,
        BLOCK=BLOCK,
    )  # fmt: skip
    return dx, dy


def aten_value(x: Tensor, y: Tensor, *, reduction: str = "mean") -> tuple[Tensor, Saved]:
    """Add up the squared differences, or keep them; both inputs are saved."""
    z = torch.ops.aten.mse_loss.default(wide(x), wide(y), REDUCTIONS[reduction])
    return z.to(x.dtype), (x, y, reduction)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return 2 (x - y) g, divided where the loss was, and its opposite."""
    x, y, reduction = saved
    if not any(needs):
        return None, None
    first, second = (x, y) if needs[0] else (y, x)
    slope = _backward(wide(cotangent), wide(first), wide(second), REDUCTIONS[reduction]).to(x.dtype)
    if not needs[0]:
        return None, slope
    return slope, -slope if needs[1] else None


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield each reduction of more than a block."""
    x = torch.ones(8, 260, dtype=dtype)
    for reduction in REDUCTIONS:
        yield (x, x), {"reduction": reduction}


op = Op(
    "mse_loss", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "y"), attributes={"reduction": "mean"},
)  # fmt: skip
