"""Twin of spec.ops.layer_norm.

The mean, then the variance of the centred entries, in registers where a row fits a block
(fast.kernels.rows.rowwise). Saved: x, gamma, and per row, in fp32, the mean and the root of
variance + eps.

The VJP is one launch of at most PROGRAMS programs: each writes dx for every PROGRAMS-th tile of
rows and adds its share of dgamma and dbeta to its own line of fp32 partials, which a second launch
adds up in order: no atomics. Columns past the first block are added in memory, which the program
alone reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.examples import Example
from fast.kernels.page import Gradients, Op, Saved
from fast.kernels.rows import lines, residuals, rowwise

_SIZES = ["rows", "n", "xr", "xn", "rr", "rn", "gs"]
_POINTERS = ["x", "residual", "gamma", "means", "roots"]


@triton.jit(do_not_specialize=[*_SIZES, "bs", "eps"],
            do_not_specialize_on_alignment=["z", "sums", "beta", *_POINTERS])  # fmt: skip
def _value_kernel(
    z, sums, means, roots, x, residual, gamma, beta, rows: tl.int64, n: tl.int32,
    xr: tl.int64, xn: tl.int64, rr: tl.int64, rn: tl.int64, gs: tl.int64, bs: tl.int64, eps,
    ADDED: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    count = n.to(tl.float32)
    column = tl.arange(0, BLOCK)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start, behind = row * xr, row * rr
    first = rowwise.summed(x, residual, start, behind, 0, n, xn, rn, ADDED, UNIT, BLOCK)
    if ADDED:
        rowwise.keep(sums, row * n, 0, n, 1, first, live, UNIT, BLOCK)
    total = tl.sum(first, 1)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.summed(x, residual, start, behind, at, n, xn, rn, ADDED, UNIT, BLOCK)
        if ADDED:
            rowwise.keep(sums, row * n, at, n, 1, here, live, UNIT, BLOCK)
        total += tl.sum(here, 1)
    mean = tl.div_rn(total, count)
    tl.store(means + row, mean, mask=live)
    mean = mean[:, None]
    first = tl.where((column < n)[None, :], first - mean, 0.0)
    total = tl.sum(first * first, 1)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.summed(x, residual, start, behind, at, n, xn, rn, ADDED, UNIT, BLOCK)
        here = tl.where((at + column < n)[None, :], here - mean, 0.0)
        total += tl.sum(here * here, 1)
    root = tl.sqrt_rn(tl.div_rn(total, count) + eps)
    tl.store(roots + row, root, mask=live)
    root = root[:, None]
    for at in range(0, n, BLOCK):
        if at > 0:
            first = rowwise.summed(x, residual, start, behind, at, n, xn, rn, ADDED, UNIT, BLOCK)
            first -= mean
        scale = rowwise.line(gamma, at, n, gs, UNIT, BLOCK)
        shift = rowwise.line(beta, at, n, bs, UNIT, BLOCK)
        result = tl.div_rn(first, root) * scale + shift
        rowwise.keep(z, row * n, at, n, 1, result, live, UNIT, BLOCK)


@triton.jit
def _entries(
    x, residual, g, gamma, row, live, mean, root, at, n, xr, xn, rr, rn, gr, gn, gs,
    ADDED: tl.constexpr, UNIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return, for a block, the normalized entries, the cotangent, and the cotangent by gamma."""
    inside = live[:, None] & (at + tl.arange(0, BLOCK) < n)[None, :]
    here = rowwise.summed(x, residual, row * xr, row * rr, at, n, xn, rn, ADDED, UNIT, BLOCK)
    normal = tl.where(inside, tl.div_rn(here - mean, root), 0.0)
    cotangent = rowwise.block(g, row * gr, at, n, gn, 0.0, UNIT, BLOCK)
    cotangent = tl.where(inside, cotangent, 0.0)
    return normal, cotangent, cotangent * rowwise.line(gamma, at, n, gs, UNIT, BLOCK)


@triton.jit(do_not_specialize=[*_SIZES, "gr", "gn", "hr", "hn"],
            do_not_specialize_on_alignment=["dx", "partials", "g", "h", *_POINTERS])  # fmt: skip
def _vjp_kernel(
    dx, partials, x, residual, g, h, gamma, means, roots, rows: tl.int64, n: tl.int32,
    xr: tl.int64, xn: tl.int64, rr: tl.int64, rn: tl.int64,
    gr: tl.int64, gn: tl.int64, hr: tl.int64, hn: tl.int64, gs: tl.int64,
    ADDED: tl.constexpr, JOINED: tl.constexpr,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    count = n.to(tl.float32)
    column = tl.arange(0, BLOCK)
    program, programs = tl.program_id(0), tl.num_programs(0)
    dgammas = partials + program.to(tl.int64) * n
    dbetas = dgammas + programs.to(tl.int64) * n
    dgamma = tl.zeros((BLOCK,), dtype=tl.float32)
    dbeta = tl.zeros((BLOCK,), dtype=tl.float32)
    for tile in range(program, tl.cdiv(rows, ROWS), programs):
        row, live = rowwise.tile_of_rows(tile, rows, ROWS)
        mean = tl.load(means + row)[:, None]
        root = tl.load(roots + row)[:, None]
        normal, cotangent, scaled = _entries(
            x, residual, g, gamma, row, live, mean, root, 0, n, xr, xn, rr, rn, gr, gn, gs,
            ADDED, UNIT, BLOCK,
        )  # fmt: skip
        total = tl.sum(scaled, 1)
        along = tl.sum(scaled * normal, 1)
        for at in range(BLOCK, n, BLOCK):
            later, _, weighed = _entries(
                x, residual, g, gamma, row, live, mean, root, at, n, xr, xn, rr, rn, gr, gn, gs,
                ADDED, UNIT, BLOCK,
            )  # fmt: skip
            total += tl.sum(weighed, 1)
            along += tl.sum(weighed * later, 1)
        total = tl.div_rn(total, count)[:, None]
        along = tl.div_rn(along, count)[:, None]
        over = tl.div_rn(1.0, root)
        result = (scaled - total - normal * along) * over
        if JOINED:
            result += rowwise.block(h, row * hr, 0, n, hn, 0.0, UNIT, BLOCK)
        rowwise.keep(dx, row * n, 0, n, 1, result, live, UNIT, BLOCK)
        dgamma += tl.sum(cotangent * normal, 0)
        dbeta += tl.sum(cotangent, 0)
        for at in range(BLOCK, n, BLOCK):
            normal, cotangent, scaled = _entries(
                x, residual, g, gamma, row, live, mean, root, at, n, xr, xn, rr, rn, gr, gn, gs,
                ADDED, UNIT, BLOCK,
            )  # fmt: skip
            result = (scaled - total - normal * along) * over
            if JOINED:
                result += rowwise.block(h, row * hr, at, n, hn, 0.0, UNIT, BLOCK)
            rowwise.keep(dx, row * n, at, n, 1, result, live, UNIT, BLOCK)
            inside = at + column < n
            before = inside & (tile != program)
            part = tl.load(dgammas + at + column, mask=before, other=0.0)
            tl.store(dgammas + at + column, part + tl.sum(cotangent * normal, 0), mask=inside)
            part = tl.load(dbetas + at + column, mask=before, other=0.0)
            tl.store(dbetas + at + column, part + tl.sum(cotangent, 0), mask=inside)
        # The next tile reads what other threads of this program have written.
        tl.debug_barrier()
    tl.store(dgammas + column, dgamma, mask=column < n)
    tl.store(dbetas + column, dbeta, mask=column < n)


@triton.jit(do_not_specialize=["programs", "n"],
            do_not_specialize_on_alignment=["dgamma", "dbeta", "partials"])  # fmt: skip
def _finish_kernel(
    dgamma, dbeta, partials, programs: tl.int64, n: tl.int64,
    LINES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    first = tl.zeros((BLOCK,), dtype=tl.float32)
    second = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(0, programs, LINES):
        line = at + tl.arange(0, LINES)
        mask = (line < programs)[:, None] & (column < n)[None, :]
        pointers = partials + (line[:, None] * n + column[None, :])
        first += tl.sum(tl.load(pointers, mask=mask, other=0.0), 0)
        second += tl.sum(tl.load(pointers + programs * n, mask=mask, other=0.0), 0)
    tl.store(dgamma + column, first, mask=column < n)
    tl.store(dbeta + column, second, mask=column < n)


def check(x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float = 1e-5) -> None:
    """Refuse x without an axis (C1), gamma or beta of another shape (C2), and a bad eps (C3)."""
    lines.check("layer_norm", x, eps, gamma=gamma, beta=beta)


def value(x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float = 1e-5) -> tuple[Tensor, Saved]:
    """Centre, divide by the root of the variance, scale and shift."""
    z, _, means, roots = normalized(x, None, gamma, beta, eps)
    return z, (x, gamma, means, roots)


def normalized(
    x: Tensor, residual: Tensor | None, gamma: Tensor, beta: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Normalize x, or its sum with a residual; return z, that sum, the means and the roots.

    Without a residual the sum is z again.
    """
    checks.for_kernels(x)
    source, scale, shift = lines.rows(x, gamma.dim()), lines.line(gamma), lines.line(beta)
    other = source if residual is None else lines.rows(residual, gamma.dim())
    rows, n, _ = source.shape
    means, roots = rowwise.statistic(source), rowwise.statistic(source)
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    sums = z if residual is None else torch.empty_like(z)
    if n:
        meta = rowwise.tile(
            source, other, z.view(source.shape), sums.view(source.shape), scale, shift
        )
        launch(
            _value_kernel, (-(-rows // meta["ROWS"]),), z, sums, means, roots, source, other,
            scale, shift, rows, n, *source.stride()[:2], *other.stride()[:2],
            scale.stride(1), shift.stride(1), eps, ADDED=residual is not None, **meta,
        )  # fmt: skip
    return z, sums, means, roots


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return dx, dgamma and dbeta; all are computed if any is needed."""
    if not any(needs):
        return None, None, None
    x, gamma, means, roots = saved
    dx, dgamma, dbeta = pulled(x, None, gamma, means, roots, cotangent, None, any(needs[1:]))
    return (
        dx if needs[0] else None,
        dgamma if needs[1] else None,
        dbeta if needs[2] else None,
    )


def pulled(
    x: Tensor, residual: Tensor | None, gamma: Tensor, means: Tensor, roots: Tensor,
    g: Tensor, h: Tensor | None, affine: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return dx, dgamma and dbeta, without meaning unless `affine`; h is added to dx.

    What was normalized is x, or its sum with a residual.
    """
    source, given = lines.rows(x, gamma.dim()), lines.rows(g, gamma.dim())
    other = source if residual is None else lines.rows(residual, gamma.dim())
    joined = given if h is None else lines.rows(h, gamma.dim())
    scale = lines.line(gamma)
    rows, n, _ = source.shape
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    # 32-bit rows are read by whole cache lines as they are.
    meta = rowwise.tile(
        source, other, given, joined, dx.view(source.shape), scale, wide=x.element_size() == 2
    )
    meta = residuals.tile(meta, x, h)
    programs = min(lines.PROGRAMS, -(-rows // meta["ROWS"]))
    partials = torch.empty(2 * programs * n, dtype=torch.float32, device=x.device)
    if n:
        launch(
            _vjp_kernel, (programs,), dx, partials, source, other, given, joined, scale, means,
            roots, rows, n, *source.stride()[:2], *other.stride()[:2], *given.stride()[:2],
            *joined.stride()[:2], scale.stride(1),
            ADDED=residual is not None, JOINED=h is not None, **meta,
        )  # fmt: skip
    dgamma, dbeta = (torch.empty(n, dtype=torch.float32, device=x.device) for _ in range(2))
    if affine:
        launch(
            _finish_kernel, (-(-n // 128),), dgamma, dbeta, partials, programs, n,
            LINES=16, BLOCK=128,
        )  # fmt: skip
    return dx, dgamma.to(x.dtype).view(gamma.shape), dbeta.to(x.dtype).view(gamma.shape)


def aten_value(
    x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float = 1e-5
) -> tuple[Tensor, Saved]:
    """Centre, divide by the root of the variance, scale and shift.

    torch's own kernel forms x / root - mean / root, which cancels where the mean is large.
    """
    source, axes = wide(x), gamma.dim()
    mean = lines.mean(source, axes)
    z = source - mean
    root = lines.mean(z.square(), axes).add_(eps).sqrt_()
    z = z.div_(root).mul_(gamma).add_(beta)
    return z.to(x.dtype), (x, gamma, mean, root)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return dx, dgamma and dbeta, each where it is needed."""
    x, gamma, mean, root = saved
    g, axes = wide(cotangent), gamma.dim()
    normal = (x - mean).div_(root) if needs[0] or needs[1] else None
    dx = dgamma = dbeta = None
    if needs[0]:
        scaled = g * gamma
        along = lines.mean(scaled * normal, axes)
        dx = scaled.sub_(lines.mean(scaled, axes)).addcmul_(normal, along, value=-1)
        dx = dx.mul_(root.reciprocal()).to(x.dtype)
    if needs[1]:
        dgamma = lines.down(g * normal, gamma)
    if needs[2]:
        dbeta = lines.down(g, gamma)
    return dx, dgamma, dbeta


MOST_KERNELS = 5
"""In 16 bits: a narrow tile and a wide one each way, and the sum of the fp32 partials."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield rows for the narrow tile, and rows for the wide one."""
    for rows, n in ((3, 7), (64, 1024)):
        line = torch.ones(n, dtype=dtype)
        yield (torch.ones(rows, n, dtype=dtype), line, line), {}


op = Op(
    "layer_norm", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "gamma", "beta"), attributes={"eps": 1e-5},
)  # fmt: skip
