"""Twin of spec.ops.rms_norm.

One pass over a row that fits a block: it stays in registers between its mean square and its result
(fast.kernels.rows.rowwise). Saved: x, gamma, and per row, in fp32, one over the root.

The VJP is one launch of at most PROGRAMS programs: each writes dx for every PROGRAMS-th tile of
rows and adds its share of dgamma to its own line of fp32 partials, which a second launch adds up in
order: no atomics. Columns past the first block are added in memory, which the program alone reads
and writes.
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
_POINTERS = ["x", "residual", "gamma", "overs"]


@triton.jit(do_not_specialize=[*_SIZES, "eps"],
            do_not_specialize_on_alignment=["z", "sums", *_POINTERS])  # fmt: skip
def _value_kernel(
    z, sums, overs, x, residual, gamma, rows: tl.int64, n: tl.int32,
    xr: tl.int64, xn: tl.int64, rr: tl.int64, rn: tl.int64, gs: tl.int64, eps,
    ADDED: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = rowwise.length(n, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    start, behind = row * xr, row * rr
    first = rowwise.summed(x, residual, start, behind, 0, n, xn, rn, ADDED, UNIT, BLOCK)
    if ADDED:
        rowwise.keep(sums, row * n, 0, n, 1, first, live, UNIT, BLOCK)
    total = tl.sum(first * first, 1)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.summed(x, residual, start, behind, at, n, xn, rn, ADDED, UNIT, BLOCK)
        if ADDED:
            rowwise.keep(sums, row * n, at, n, 1, here, live, UNIT, BLOCK)
        total += tl.sum(here * here, 1)
    over = tl.div_rn(1.0, tl.sqrt_rn(tl.div_rn(total, n.to(tl.float32)) + eps))
    tl.store(overs + row, over, mask=live)
    for at in range(0, n, BLOCK):
        if at > 0:
            first = rowwise.summed(x, residual, start, behind, at, n, xn, rn, ADDED, UNIT, BLOCK)
        result = first * over[:, None] * rowwise.line(gamma, at, n, gs, UNIT, BLOCK)
        rowwise.keep(z, row * n, at, n, 1, result, live, UNIT, BLOCK)


@triton.jit
def _entries(
    x, residual, g, gamma, row, live, over, at, n, xr, xn, rr, rn, gr, gn, gs,
    ADDED: tl.constexpr, UNIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return, for a block, the entries, what they add to dgamma, and the cotangent by gamma."""
    inside = live[:, None] & (at + tl.arange(0, BLOCK) < n)[None, :]
    here = rowwise.summed(x, residual, row * xr, row * rr, at, n, xn, rn, ADDED, UNIT, BLOCK)
    cotangent = rowwise.block(g, row * gr, at, n, gn, 0.0, UNIT, BLOCK)
    share = tl.where(inside, cotangent * (here * over), 0.0)
    return here, share, cotangent * rowwise.line(gamma, at, n, gs, UNIT, BLOCK)


@triton.jit(do_not_specialize=[*_SIZES, "gr", "gn", "hr", "hn"],
            do_not_specialize_on_alignment=["dx", "partials", "g", "h", *_POINTERS])  # fmt: skip
def _vjp_kernel(
    dx, partials, x, residual, g, h, gamma, overs, rows: tl.int64, n: tl.int32,
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
    dgamma = tl.zeros((BLOCK,), dtype=tl.float32)
    for tile in range(program, tl.cdiv(rows, ROWS), programs):
        row, live = rowwise.tile_of_rows(tile, rows, ROWS)
        over = tl.load(overs + row)[:, None]
        first, share, scaled = _entries(
            x, residual, g, gamma, row, live, over, 0, n, xr, xn, rr, rn, gr, gn, gs,
            ADDED, UNIT, BLOCK,
        )  # fmt: skip
        dgamma += tl.sum(share, 0)
        total = tl.sum(scaled * first, 1)
        for at in range(BLOCK, n, BLOCK):
            later, _, weighed = _entries(
                x, residual, g, gamma, row, live, over, at, n, xr, xn, rr, rn, gr, gn, gs,
                ADDED, UNIT, BLOCK,
            )  # fmt: skip
            total += tl.sum(weighed * later, 1)
        along = tl.div_rn(total[:, None] * (over * over * over), count)
        result = scaled * over - first * along
        if JOINED:
            result += rowwise.block(h, row * hr, 0, n, hn, 0.0, UNIT, BLOCK)
        rowwise.keep(dx, row * n, 0, n, 1, result, live, UNIT, BLOCK)
        for at in range(BLOCK, n, BLOCK):
            later, share, weighed = _entries(
                x, residual, g, gamma, row, live, over, at, n, xr, xn, rr, rn, gr, gn, gs,
                ADDED, UNIT, BLOCK,
            )  # fmt: skip
            result = weighed * over - later * along
            if JOINED:
                result += rowwise.block(h, row * hr, at, n, hn, 0.0, UNIT, BLOCK)
            rowwise.keep(dx, row * n, at, n, 1, result, live, UNIT, BLOCK)
            inside = at + column < n
            before = inside & (tile != program)
            part = tl.load(dgammas + at + column, mask=before, other=0.0)
            tl.store(dgammas + at + column, part + tl.sum(share, 0), mask=inside)
        # The next tile reads what other threads of this program have written.
        tl.debug_barrier()
    tl.store(dgammas + column, dgamma, mask=column < n)


def check(x: Tensor, gamma: Tensor, *, eps: float = 2**-23) -> None:
    """Refuse x without an axis (C1), gamma of another shape than its last (C2), a bad eps (C3)."""
    lines.check("rms_norm", x, eps, gamma=gamma)


def value(x: Tensor, gamma: Tensor, *, eps: float = 2**-23) -> tuple[Tensor, Saved]:
    """Multiply by one over the root of the mean square, and scale."""
    z, _, overs = normalized(x, None, gamma, eps)
    return z, (x, gamma, overs)


def normalized(
    x: Tensor, residual: Tensor | None, gamma: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize x, or its sum with a residual; return z, that sum, and one over the roots.

    Without a residual the sum is z again.
    """
    checks.for_kernels(x)
    source, scale = lines.rows(x, gamma.dim()), lines.line(gamma)
    other = source if residual is None else lines.rows(residual, gamma.dim())
    rows, n, _ = source.shape
    overs = rowwise.statistic(source)
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    sums = z if residual is None else torch.empty_like(z)
    if z.numel():
        meta = rowwise.tile(source, other, z.view(source.shape), sums.view(source.shape), scale)
        launch(
            _value_kernel, (-(-rows // meta["ROWS"]),), z, sums, overs, source, other, scale,
            rows, n, *source.stride()[:2], *other.stride()[:2], scale.stride(1), eps,
            ADDED=residual is not None, **meta,
        )  # fmt: skip
    return z, sums, overs


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return dx and dgamma; both are computed if one is needed."""
    if not any(needs):
        return None, None
    x, gamma, overs = saved
    dx, partials = pulled(x, None, gamma, overs, cotangent, None)
    return dx if needs[0] else None, lines.summed(partials, gamma) if needs[1] else None


def pulled(
    x: Tensor, residual: Tensor | None, gamma: Tensor, overs: Tensor, g: Tensor, h: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return dx, to which h is added, and the fp32 partials of dgamma.

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
    partials = torch.empty(programs, n, dtype=torch.float32, device=x.device)
    if dx.numel():
        launch(
            _vjp_kernel, (programs,), dx, partials, source, other, given, joined, scale, overs,
            rows, n, *source.stride()[:2], *other.stride()[:2], *given.stride()[:2],
            *joined.stride()[:2], scale.stride(1),
            ADDED=residual is not None, JOINED=h is not None, **meta,
        )  # fmt: skip
    return dx, partials


def aten_value(x: Tensor, gamma: Tensor, *, eps: float = 2**-23) -> tuple[Tensor, Saved]:
    """Multiply by one over the root of the mean square, and scale."""
    source = wide(x)
    over = lines.mean(source.square(), gamma.dim()).add_(eps).sqrt_().reciprocal_()
    return (source * over).mul_(gamma).to(x.dtype), (x, gamma, over)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return dx and dgamma, each where it is needed."""
    x, gamma, over = saved
    source, g = wide(x), wide(cotangent)
    dx = dgamma = None
    if needs[0]:
        scaled = g * gamma
        along = lines.mean(scaled * source, gamma.dim(), over * over * over)
        dx = (scaled * over).addcmul_(source, along, value=-1).to(x.dtype)
    if needs[1]:
        dgamma = lines.down(g * (source * over), gamma)
    return dx, dgamma


MOST_KERNELS = 5
"""In 16 bits: a narrow tile and a wide one each way, and the sum of the fp32 partials."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield rows for the narrow tile, and rows for the wide one."""
    for rows, n in ((3, 7), (64, 1024)):
        yield (torch.ones(rows, n, dtype=dtype), torch.ones(n, dtype=dtype)), {}


op = Op(
    "rms_norm", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "gamma"), attributes={"eps": 2**-23},
)  # fmt: skip
