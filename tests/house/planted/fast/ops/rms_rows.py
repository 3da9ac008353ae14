"""Twin of spec.ops.rms_rows.

One launch each way, all in fp32. Saved: x, and the root of mean + eps of each row. A result to
which no cotangent came has one of zeros, which are read where they lie: one for all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import rowwise

Pair = tuple[Tensor, Tensor]
_SIZES = ["rows", "n", "xr", "xn"]


@triton.jit(do_not_specialize=[*_SIZES, "eps"],
            do_not_specialize_on_alignment=["z", "scales", "roots", "x"])  # fmt: skip
def _value_kernel(
    z, scales, roots, x, rows: tl.int64, n: tl.int32, xr: tl.int64, xn: tl.int64, eps,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start = row * xr
    first = rowwise.block(x, start, 0, n, xn, 0.0, UNIT, BLOCK)
    total = tl.sum(first * first, 1)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.block(x, start, at, n, xn, 0.0, UNIT, BLOCK)
        total += tl.sum(here * here, 1)
    root = tl.sqrt_rn(tl.div_rn(total, n.to(tl.float32)) + eps)
    scale = tl.div_rn(1.0, root)
    tl.store(roots + row, root, mask=live)
    tl.store(scales + row, scale.to(scales.dtype.element_ty), mask=live)
    for at in range(0, n, BLOCK):
        if at > 0:
            first = rowwise.block(x, start, at, n, xn, 0.0, UNIT, BLOCK)
        rowwise.keep(z, row * n, at, n, 1, first * scale[:, None], live, UNIT, BLOCK)


@triton.jit(do_not_specialize=[*_SIZES, "gr", "gn", "hr"],
            do_not_specialize_on_alignment=["dx", "x", "g", "h", "roots"])  # fmt: skip
def _vjp_kernel(
    dx, x, g, h, roots, rows: tl.int64, n: tl.int32, xr: tl.int64, xn: tl.int64,
    gr: tl.int64, gn: tl.int64, hr: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    first = rowwise.block(x, row * xr, 0, n, xn, 0.0, UNIT, BLOCK)
    cotangent = rowwise.block(g, row * gr, 0, n, gn, 0.0, UNIT, BLOCK)
    total = tl.load(h + row * hr).to(tl.float32) + tl.sum(first * cotangent, 1)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.block(x, row * xr, at, n, xn, 0.0, UNIT, BLOCK)
        total += tl.sum(here * rowwise.block(g, row * gr, at, n, gn, 0.0, UNIT, BLOCK), 1)
    root = tl.load(roots + row)
    scale = tl.div_rn(1.0, root)
    along = tl.div_rn(tl.div_rn(total * scale * scale, root), n.to(tl.float32))
    for at in range(0, n, BLOCK):
        if at > 0:
            first = rowwise.block(x, row * xr, at, n, xn, 0.0, UNIT, BLOCK)
            cotangent = rowwise.block(g, row * gr, at, n, gn, 0.0, UNIT, BLOCK)
        result = cotangent * scale[:, None] - first * along[:, None]
        rowwise.keep(dx, row * n, at, n, 1, result, live, UNIT, BLOCK)


def check(x: Tensor, *, eps: float = 1e-6) -> None:
    """Refuse x without entries along a last axis (C1), and a bad eps (C2)."""
    if x.dim() < 1 or x.shape[-1] == 0:
        raise Rejected(
            f"rms_rows C1: x has a last axis, and entries along it, got {tuple(x.shape)}"
        )
    if not 0 < eps < math.inf:
        raise Rejected(f"rms_rows C2: eps is finite and > 0, got {eps}")
    checks.floats("rms_rows", x)


def value(x: Tensor, *, eps: float = 1e-6) -> tuple[Pair, Saved]:
    """Multiply each row by one over the root of its mean square, and return that too."""
    checks.for_kernels(x)
    source = rowwise.view(x, -1)
    rows, n, _ = source.shape
    roots = rowwise.statistic(source)
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    scales = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device)
    if rows:
        meta = rowwise.tile(source, z.view(source.shape))
        launch(
            _value_kernel, (-(-rows // meta["ROWS"]),), z, scales, roots, source,
            rows, n, *source.stride()[:2], eps, **meta,
        )  # fmt: skip
    return (z, scales), (x, roots)


def vjp(saved: Saved, cotangents: tuple[Tensor | None, ...], needs: Sequence[bool]) -> Gradients:
    """Add what comes through the rows and what comes through the scales."""
    if not needs[0]:
        return (None,)
    x, roots = saved
    given, h = _filled(x, cotangents)
    source, g, along = rowwise.view(x, -1), rowwise.view(given, -1), h.reshape(-1)
    rows, n, _ = source.shape
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if rows:
        meta = rowwise.tile(source, g, dx.view(source.shape))
        launch(
            _vjp_kernel, (-(-rows // meta["ROWS"]),), dx, source, g, along, roots,
            rows, n, *source.stride()[:2], *g.stride()[:2], along.stride(0), **meta,
        )  # fmt: skip
    return (dx,)


def _filled(x: Tensor, cotangents: tuple[Tensor | None, ...]) -> Pair:
    g, h = cotangents
    zero = torch.zeros((), dtype=x.dtype, device=x.device)
    return (
        zero.expand(x.shape) if g is None else g,
        zero.expand(x.shape[:-1]) if h is None else h,
    )


def aten_value(x: Tensor, *, eps: float = 1e-6) -> tuple[Pair, Saved]:
    """Multiply each row by one over the root of its mean square, and return that too."""
    source = wide(x)
    root = _mean(source.square()).add_(eps).sqrt_()
    scale = 1.0 / root
    return ((source * scale).to(x.dtype), scale.squeeze(-1).to(x.dtype)), (x, root)


def aten_vjp(
    saved: Saved, cotangents: tuple[Tensor | None, ...], needs: Sequence[bool]
) -> Gradients:
    """Add what comes through the rows and what comes through the scales."""
    if not needs[0]:
        return (None,)
    x, root = saved
    source, (g, h) = wide(x), map(wide, _filled(x, cotangents))
    scale = 1.0 / root
    total = h.unsqueeze(-1) + (source * g).sum(-1, keepdim=True)
    along = (total * scale * scale / root).div_(torch.full_like(root, x.shape[-1]))
    return ((g * scale - source * along).to(x.dtype),)


def _mean(x: Tensor) -> Tensor:
    total = x.sum(-1, keepdim=True)
    # On a device, torch multiplies by the reciprocal of a number, but divides by a tensor.
    return total.div_(torch.full_like(total, x.shape[-1]))


MOST_KERNELS = 4
"""A narrow tile and a wide one each way."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield rows for the narrow tile, and rows for the wide one."""
    for rows, n in ((3, 7), (64, 1024)):
        yield (torch.ones(rows, n, dtype=dtype),), {}


op = Op(
    "rms_rows", check, value, vjp, aten_value, aten_vjp,
    inputs=("x",), attributes={"eps": 1e-6}, results=2,
)  # fmt: skip
