"""Twin of spec.ops.group_norm.

A program owns some groups of samples, which it walks in tiles of channels by entries of them. The
first tile stays in registers between the mean, the variance and the result. Saved: x, gamma, and
per group, in fp32, the mean and the root of variance + eps.

The VJP is one launch that walks a group twice: it adds up what dgamma and dbeta receive from each
channel of each sample, in fp32, and the two means of a group, and then writes dx. A second launch
adds up the samples, in order: no atomics.
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
from fast.kernels.page import REQUIRED, Gradients, Op, Saved
from fast.kernels.rows import lines, rowwise
from fast.kernels.rows.channels import added, column, seen, tile_of

_SIZES = ["rows", "groups", "channels", "inner", "xn", "xc", "xi", "gs"]
_POINTERS = ["x", "gamma", "means", "roots"]


@triton.jit
def _tile(at, channels, inner, live, BLOCK_CHANNELS: tl.constexpr, BLOCK_ENTRIES: tl.constexpr):
    """Return the channels and entries of a tile of groups, and which of them there are."""
    across = tl.cdiv(inner, BLOCK_ENTRIES)
    channel = (at // across * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS))[None, :, None]
    entry = (at % across * BLOCK_ENTRIES + tl.arange(0, BLOCK_ENTRIES))[None, None, :]
    return channel, entry, live[:, None, None] & (channel < channels) & (entry < inner)


@triton.jit
def _read(x, start, channel, entry, inside, xc, xi, UNIT: tl.constexpr):
    """Read a tile of groups that begin at the offsets `start`, as fp32."""
    if UNIT > 1:
        pointers = x + (start[:, None, None] + (channel * xc + entry))
        pointers = tl.multiple_of(pointers, (1, 1, 16))
    else:
        pointers = x + (start[:, None, None] + (channel * xc + entry * xi))
    return tl.load(pointers, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _of_channels(line, own, channel, channels, step):
    """Read a parameter, of the channels of each group."""
    place = (own[:, None, None] + channel) * step
    return tl.load(line + place, mask=channel < channels, other=0.0).to(tl.float32)


@triton.jit
def _keep(z, out, channel, entry, inside, inner, result, UNIT: tl.constexpr):
    """Store a tile of groups that are contiguous."""
    pointers = z + (out[:, None, None] + (channel.to(tl.int64) * inner + entry))
    if UNIT > 1:
        pointers = tl.multiple_of(pointers, (1, 1, 16))
    tl.store(pointers, result.to(z.dtype.element_ty), mask=inside)


@triton.jit
def _added(block):
    """Add up what each group has in a tile."""
    return tl.sum(tl.sum(block, 2), 1)


@triton.jit(do_not_specialize=[*_SIZES, "bs", "eps"],
            do_not_specialize_on_alignment=["z", "beta", *_POINTERS])  # fmt: skip
def _value_kernel(
    z, means, roots, x, gamma, beta,
    rows: tl.int64, groups: tl.int64, channels: tl.int32, inner: tl.int32,
    xn: tl.int64, xc: tl.int64, xi: tl.int64, gs: tl.int64, bs: tl.int64, eps,
    UNIT: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr, BLOCK_ENTRIES: tl.constexpr,
):  # fmt: skip
    inner = rowwise.length(inner, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    own = row % groups * channels
    start = row // groups * xn + own * xc
    out = row * channels * inner
    count = (channels * inner).to(tl.float32)
    tiles = tl.cdiv(channels, BLOCK_CHANNELS) * tl.cdiv(inner, BLOCK_ENTRIES)
    channel, entry, inside = _tile(0, channels, inner, live, BLOCK_CHANNELS, BLOCK_ENTRIES)
    first = _read(x, start, channel, entry, inside, xc, xi, UNIT)
    total = _added(first)
    for at in range(1, tiles):
        channel, entry, inside = _tile(at, channels, inner, live, BLOCK_CHANNELS, BLOCK_ENTRIES)
        total += _added(_read(x, start, channel, entry, inside, xc, xi, UNIT))
    mean = tl.div_rn(total, count)
    tl.store(means + row, mean, mask=live)
    mean = mean[:, None, None]
    channel, entry, inside = _tile(0, channels, inner, live, BLOCK_CHANNELS, BLOCK_ENTRIES)
    first = tl.where(inside, first - mean, 0.0)
    total = _added(first * first)
    for at in range(1, tiles):
        channel, entry, inside = _tile(at, channels, inner, live, BLOCK_CHANNELS, BLOCK_ENTRIES)
        here = _read(x, start, channel, entry, inside, xc, xi, UNIT) - mean
        here = tl.where(inside, here, 0.0)
        total += _added(here * here)
    root = tl.sqrt_rn(tl.div_rn(total, count) + eps)
    tl.store(roots + row, root, mask=live)
    root = root[:, None, None]
    for at in range(tiles):
        channel, entry, inside = _tile(at, channels, inner, live, BLOCK_CHANNELS, BLOCK_ENTRIES)
        if at > 0:
            first = _read(x, start, channel, entry, inside, xc, xi, UNIT) - mean
        scale = _of_channels(gamma, own, channel, channels, gs)
        shift = _of_channels(beta, own, channel, channels, bs)
        result = tl.div_rn(first, root) * scale + shift
        _keep(z, out, channel, entry, inside, inner, result, UNIT)


@triton.jit
def _entries(
    x, g, gamma, from_x, from_g, own, live, at, channels, inner, mean, root, over,
    xc, xi, gc, gi, gs,
    UNIT: tl.constexpr, BLOCK_CHANNELS: tl.constexpr, BLOCK_ENTRIES: tl.constexpr,
):  # fmt: skip
    """Return, for a tile, the normal form, the cotangent, and that by gamma and over the root."""
    channel, entry, inside = _tile(at, channels, inner, live, BLOCK_CHANNELS, BLOCK_ENTRIES)
    here = _read(x, from_x, channel, entry, inside, xc, xi, UNIT)
    normal = tl.where(inside, tl.div_rn(here - mean, root), 0.0)
    cotangent = _read(g, from_g, channel, entry, inside, gc, gi, UNIT)
    scale = _of_channels(gamma, own, channel, channels, gs)
    return normal, cotangent, cotangent * scale * over


@triton.jit(
    do_not_specialize=[*_SIZES, "gn", "gc", "gi"],
    do_not_specialize_on_alignment=["dx", "dgammas", "dbetas", "g", *_POINTERS],
)
def _vjp_kernel(
    dx, dgammas, dbetas, x, g, gamma, means, roots,
    rows: tl.int64, groups: tl.int64, channels: tl.int32, inner: tl.int32,
    xn: tl.int64, xc: tl.int64, xi: tl.int64, gn: tl.int64, gc: tl.int64, gi: tl.int64,
    gs: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr, BLOCK_ENTRIES: tl.constexpr,
):  # fmt: skip
    inner = rowwise.length(inner, UNIT)
    row, live = rowwise.tile_of_rows(tl.program_id(0), rows, ROWS)
    own = row % groups * channels
    from_x = row // groups * xn + own * xc
    from_g = row // groups * gn + own * gc
    count = (channels * inner).to(tl.float32)
    across = tl.cdiv(inner, BLOCK_ENTRIES)
    tiles = tl.cdiv(channels, BLOCK_CHANNELS) * across
    lane = tl.arange(0, BLOCK_CHANNELS)[None, :]
    into = (row * channels)[:, None] + lane
    mean, root = tl.load(means + row)[:, None, None], tl.load(roots + row)[:, None, None]
    over = tl.div_rn(1.0, root)
    normal, cotangent, scaled = _entries(
        x, g, gamma, from_x, from_g, own, live, 0, channels, inner, mean, root, over,
        xc, xi, gc, gi, gs, UNIT, BLOCK_CHANNELS, BLOCK_ENTRIES,
    )  # fmt: skip
    total, along = _added(scaled), _added(scaled * normal)
    dgamma, dbeta = tl.sum(cotangent * normal, 2), tl.sum(cotangent, 2)
    known = live[:, None] & (lane < channels)
    tl.store(dgammas + into, dgamma, mask=known)
    tl.store(dbetas + into, dbeta, mask=known)
    for at in range(1, tiles):
        later, given, weighed = _entries(
            x, g, gamma, from_x, from_g, own, live, at, channels, inner, mean, root, over,
            xc, xi, gc, gi, gs, UNIT, BLOCK_CHANNELS, BLOCK_ENTRIES,
        )  # fmt: skip
        total += _added(weighed)
        along += _added(weighed * later)
        # The next channels begin where the entries of the last ones end.
        begins = at % across + 0 * lane == 0
        dgamma = tl.where(begins, 0.0, dgamma) + tl.sum(given * later, 2)
        dbeta = tl.where(begins, 0.0, dbeta) + tl.sum(given, 2)
        behind = at // across * BLOCK_CHANNELS
        known = live[:, None] & (behind + lane < channels)
        tl.store(dgammas + into + behind, dgamma, mask=known)
        tl.store(dbetas + into + behind, dbeta, mask=known)
    total = tl.div_rn(total, count)[:, None, None]
    along = tl.div_rn(along, count)[:, None, None]
    out = row * channels * inner
    for at in range(tiles):
        if at > 0:
            normal, cotangent, scaled = _entries(
                x, g, gamma, from_x, from_g, own, live, at, channels, inner, mean, root, over,
                xc, xi, gc, gi, gs, UNIT, BLOCK_CHANNELS, BLOCK_ENTRIES,
            )  # fmt: skip
        channel, entry, inside = _tile(at, channels, inner, live, BLOCK_CHANNELS, BLOCK_ENTRIES)
        _keep(dx, out, channel, entry, inside, inner, scaled - total - normal * along, UNIT)


def check(x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5) -> None:
    """Refuse what has no channels (C1), groups (C2), parameters (C3) or eps (C4) of the page."""
    if x.dim() < 2:
        raise Rejected(f"group_norm C1: x has axes [N, C, ...], got shape {tuple(x.shape)}")
    channels = x.shape[1]
    if type(groups) is not int or groups < 1 or channels % groups:
        raise Rejected(
            "group_norm C2: groups is an integer >= 1 that divides the number of channels, "
            f"got {groups!r} for {channels} channels"
        )
    if gamma.shape != (channels,) or beta.shape != (channels,):
        raise Rejected(
            f"group_norm C3: gamma and beta have the shape ({channels},), "
            f"got {tuple(gamma.shape)} and {tuple(beta.shape)}"
        )
    if not 0 < eps < math.inf:
        raise Rejected(f"group_norm C4: eps is finite and > 0, got {eps}")
    checks.floats("group_norm", x, gamma, beta)


def value(
    x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5
) -> tuple[Tensor, Saved]:
    """Centre each group, divide by the root of its variance, scale and shift its channels."""
    checks.for_kernels(x)
    source = seen(x)
    rows = x.shape[0] * groups
    means, roots = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if z.numel():
        sizes = groups, x.shape[1] // groups, source.shape[2]
        rowwise.need_columns(sizes[1] * sizes[2])
        meta = tile_of((source, z.view(source.shape)), WIDE, SOME, FEW)
        launch(
            _value_kernel, (-(-rows // meta["ROWS"]),), z, means, roots, source, gamma, beta,
            rows, *sizes, *source.stride(), gamma.stride(0), beta.stride(0), eps, **meta,
        )  # fmt: skip
    return z, (x, gamma, means, roots, groups)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return dx, dgamma and dbeta; all are computed if any is needed."""
    if not any(needs):
        return None, None, None
    x, gamma, means, roots, groups = saved
    source, g = seen(x), seen(cotangent)
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    shares = torch.zeros if not x.numel() else torch.empty
    dgammas, dbetas = (shares(x.shape[:2], dtype=torch.float32, device=x.device) for _ in range(2))
    if x.numel():
        sizes = groups, x.shape[1] // groups, source.shape[2]
        rows, meta = (
            x.shape[0] * groups,
            tile_of((source, g, dx.view(source.shape)), WIDE, SOME, FEW),
        )
        launch(
            _vjp_kernel, (-(-rows // meta["ROWS"]),), dx, dgammas, dbetas, source, g, gamma, means,
            roots, rows, *sizes, *source.stride(), *g.stride(), gamma.stride(0), **meta,
        )  # fmt: skip
    return (
        dx if needs[0] else None,
        lines.summed(dgammas, gamma) if needs[1] else None,
        lines.summed(dbetas, gamma) if needs[2] else None,
    )


WIDE = {"ROWS": 1, "BLOCK_CHANNELS": 2, "BLOCK_ENTRIES": 1024, "num_warps": 8}
SOME = {"ROWS": 2, "BLOCK_CHANNELS": 8, "BLOCK_ENTRIES": 64, "num_warps": 8}
FEW = {"ROWS": 8, "BLOCK_CHANNELS": 32, "BLOCK_ENTRIES": 4, "num_warps": 8}
"""A tile has so many groups, channels of each, and entries of these, by how many a channel has."""


def aten_value(
    x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float = 1e-5
) -> tuple[Tensor, Saved]:
    """Centre each group, divide by the root of its variance, scale and shift its channels.

    torch's own kernel forms x scale + shift, which cancels where the mean is large.
    """
    source = _grouped(wide(x), groups)
    mean = lines.mean(source, 1)
    z = source - mean
    root = lines.mean(z.square(), 1).add_(eps).sqrt_()
    z = z.div_(root).view(x.shape).mul_(column(gamma, x)).add_(column(beta, x))
    return z.to(x.dtype), (x, gamma, mean, root, groups)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return dx, dgamma and dbeta, each where it is needed."""
    x, gamma, mean, root, groups = saved
    g = wide(cotangent)
    normal = (_grouped(x, groups) - mean).div_(root) if needs[0] or needs[1] else None
    dx = dgamma = dbeta = None
    if needs[0]:
        scaled = _grouped(g * column(gamma, x), groups).mul_(root.reciprocal())
        along = lines.mean(scaled * normal, 1)
        dx = scaled.sub(lines.mean(scaled, 1)).addcmul_(normal, along, value=-1)
        dx = dx.view(x.shape).to(x.dtype)
    if normal is not None and needs[1]:
        dgamma = added(g * normal.view(x.shape)).to(gamma.dtype)
    if needs[2]:
        dbeta = added(g).to(gamma.dtype)
    return dx, dgamma, dbeta


def _grouped(x: Tensor, groups: int) -> Tensor:
    """See x as [N, groups, entries]."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups * x.shape[2:].numel())


MOST_KERNELS = 7
"""For channels of many entries that are aligned, of some and of few: the value and the gradients;
and the sum over the samples."""


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield channels of many entries, of some and of few."""
    line = torch.ones(6, dtype=dtype)
    for entries in (1024, 33, 1):
        yield (torch.ones(3, 6, entries, dtype=dtype), line, line), {"groups": 2}


op = Op(
    "group_norm", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "gamma", "beta"), attributes={"groups": REQUIRED, "eps": 1e-5},
)  # fmt: skip
