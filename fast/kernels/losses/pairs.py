"""What losses of pairs share: one pass over contiguous inputs; others are copied first.

Each program adds up its part in fp32, and a reduction adds the parts up in a fixed order and
divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.page import Gradients
from fast.kernels.rows.reduce import SUM, reduce

BLOCK = 1024
PART, PARTS = 4 * BLOCK, 512
"""How many pairs a program adds up at least, and how many programs there are at most."""


@triton.jit(do_not_specialize=["n", "blocks"])
def _flat_parts_kernel(
    parts, x, y, n: tl.int64, blocks: tl.int64, scalars, FN: tl.constexpr, BLOCK: tl.constexpr
):
    start = tl.program_id(0) * blocks * BLOCK
    end = tl.minimum(start + blocks * BLOCK, n)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    while start + BLOCK <= end:
        index = tl.multiple_of(start, BLOCK) + tl.arange(0, BLOCK)
        pair = tl.load(x + index).to(tl.float32), tl.load(y + index).to(tl.float32)
        total += FN(*(pair + scalars))
        start += BLOCK
    if start < end:
        index = start + tl.arange(0, BLOCK)
        left = tl.load(x + index, mask=index < end, other=0).to(tl.float32)
        right = tl.load(y + index, mask=index < end, other=0).to(tl.float32)
        pair = left, right
        total += tl.where(index < end, FN(*(pair + scalars)), 0.0)
    tl.store(parts + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def _write(dx, dy, needs, x, y, g, index, step, divisor, scalars, FN: tl.constexpr, mask):
    share = tl.div_rn(tl.load(g + index * step, mask=mask).to(tl.float32), divisor)
    left, right = tl.load(x + index, mask=mask), tl.load(y + index, mask=mask)
    triple = left.to(tl.float32), right.to(tl.float32), share
    results = FN(*(triple + scalars))
    if needs & 1:
        tl.store(dx + index, results[0].to(dx.dtype.element_ty), mask=mask)
    if needs & 2:
        tl.store(dy + index, results[1].to(dy.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["needs", "n", "step"], do_not_specialize_on_alignment=["g"])
def _flat_vjp_kernel(
    dx, dy, needs, x, y, g, n: tl.int64, step: tl.int64, divisor: tl.float32, scalars,
    FN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0).to(tl.int64) * BLOCK
    index = start + tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        _write(dx, dy, needs, x, y, g, index, step, divisor, scalars, FN, None)
    else:
        _write(dx, dy, needs, x, y, g, index, step, divisor, scalars, FN, index < n)


def check_pair(op: str, x: Tensor, y: Tensor, reduction: str) -> None:
    """Refuse shapes that differ (C1), an unknown reduction (C2), and a mean of nothing (C3)."""
    checks.pair(op, x, y)
    checks.reduction(op, x, reduction)


def _dense(x: Tensor) -> Tensor:
    """Return x where a flat kernel can read it, else a copy."""
    if x.is_contiguous() and x.data_ptr() % 16 == 0:
        return x
    return x.clone(memory_format=torch.contiguous_format)


def divisor(x: Tensor, reduction: str) -> int:
    """Return what a loss and its cotangent are divided by."""
    return x.numel() if reduction == "mean" else 1


def of_pairs(
    fn: Any, x: Tensor, y: Tensor, reduction: str, scalars: tuple[float, ...] = ()
) -> Tensor:
    """Score pairs by `fn` of two fp32 tiles and scalars, and reduce the losses or keep them."""
    left, right, n = _dense(x), _dense(y), x.numel()
    if reduction == "none":
        return pointwise.value(fn, left, right, scalars=scalars)
    checks.for_kernels(x)
    count = max(1, min(PARTS, -(-n // PART)))
    parts = torch.empty(count, dtype=torch.float32, device=x.device)
    blocks = -(-n // (count * BLOCK))
    launch(_flat_parts_kernel, (count,), parts, left, right, n, blocks, scalars, FN=fn, BLOCK=BLOCK)
    return reduce(SUM, parts, (0,), x.dtype, wide=False, divisor=divisor(x, reduction))


def to_pairs(
    fn: Any,
    x: Tensor,
    y: Tensor,
    cotangent: Tensor,
    needs: Sequence[bool],
    reduction: str,
    scalars: tuple[float, ...] = (),
) -> Gradients:
    """Write both gradients, by `fn` of two tiles, each pair's share of the cotangent, scalars."""
    dx, dy = (torch.empty(x.shape, dtype=x.dtype, device=x.device) if k else None for k in needs)
    z = dx if dy is None else dy
    if z is None:
        return None, None
    n = x.numel()
    launch(
        _flat_vjp_kernel, (-(-n // BLOCK),), z if dx is None else dx, z, needs[0] + 2 * needs[1],
        _dense(x), _dense(y), cotangent.contiguous(), n, int(reduction == "none"),
        float(divisor(x, reduction)), scalars, FN=fn, BLOCK=BLOCK,
    )  # fmt: skip
    return dx, dy


def aten_reduced(losses: Tensor, reduction: str, dtype: torch.dtype) -> Tensor:
    """Reduce losses that were computed wide, and round once."""
    if reduction == "none":
        return losses.to(dtype)
    return (losses.sum() / divisor(losses, reduction)).to(dtype)


def aten_share(cotangent: Tensor, x: Tensor, reduction: str) -> Tensor:
    """Return what each pair receives of the cotangent, in the dtype of computation."""
    return wide(cotangent) / divisor(x, reduction)
