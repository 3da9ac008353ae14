"""Kernels that walk channels over a batch, in chunks: each program owns some channels and a chunk.

Chunks leave sums in fp32, which every program of the next launch adds up in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fast.device.mode import tl, triton
from fast.kernels.rows import rowwise
from fast.kernels.rows.channels import tile_of

MOST_CHUNKS = 64
"""The most programs that share a channel."""

_SIZES = ["rows", "channels", "inner", "tiles", "each", "chunks"]
_FREE = [*_SIZES, "xn", "xc", "xi", "gs"]


@triton.jit
def _tile(
    at, channel, rows, channels, inner,
    ROWS: tl.constexpr, BLOCK_ENTRIES: tl.constexpr,
):  # fmt: skip
    """Return the samples and the entries of a tile, and which places there are."""
    across = tl.cdiv(inner, BLOCK_ENTRIES)
    row = (at // across * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None, None]
    entry = (at % across * BLOCK_ENTRIES + tl.arange(0, BLOCK_ENTRIES))[None, None, :]
    inside = (row < rows) & (channel[None, :, None] < channels) & (entry < inner)
    return row, entry, inside


@triton.jit
def _read(x, row, channel, entry, inside, xn, xc, xi, UNIT: tl.constexpr):
    """Read a tile as fp32."""
    start = row * xn + channel[None, :, None] * xc
    if UNIT > 1:
        pointers = tl.multiple_of(x + (start + entry), (1, 1, 16))
    else:
        pointers = x + (start + entry * xi)
    return tl.load(pointers, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _keep(z, row, channel, entry, inside, channels, inner, result, UNIT: tl.constexpr):
    """Store a tile of what is contiguous."""
    pointers = z + ((row * channels + channel[None, :, None]) * inner + entry)
    if UNIT > 1:
        pointers = tl.multiple_of(pointers, (1, 1, 16))
    tl.store(pointers, result.to(z.dtype.element_ty), mask=inside)


@triton.jit
def _added(block):
    """Add up what each channel has in a tile."""
    return tl.sum(tl.sum(block, 2), 0)


@triton.jit
def _all_chunks(sums, channel, channels, chunks):
    """Add up what the chunks have left, in order."""
    known = channel < channels
    total = tl.load(sums + channel, mask=known, other=0.0)
    for chunk in range(1, chunks):
        total += tl.load(sums + (chunk * channels + channel), mask=known, other=0.0)
    return total


@triton.jit
def _own(channels, BLOCK_CHANNELS: tl.constexpr):
    """Return the channels of a program."""
    first = tl.program_id(1) * tl.full((1,), BLOCK_CHANNELS, tl.int64)
    return first + tl.arange(0, BLOCK_CHANNELS)


@triton.jit(do_not_specialize=[*_FREE], do_not_specialize_on_alignment=["out", "sums", "x"])
def sums_kernel(
    out, sums, x,
    rows: tl.int64, channels: tl.int64, inner: tl.int32, tiles: tl.int32, each: tl.int32,
    chunks: tl.int32, xn: tl.int64, xc: tl.int64, xi: tl.int64,
    CENTRED: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK_CHANNELS: tl.constexpr,
    BLOCK_ENTRIES: tl.constexpr,
):  # fmt: skip
    inner = rowwise.length(inner, UNIT)
    channel = _own(channels, BLOCK_CHANNELS)
    mean = tl.zeros((BLOCK_CHANNELS,), tl.float32)
    if CENTRED:
        count = (rows * inner).to(tl.float32)
        mean = tl.div_rn(_all_chunks(sums, channel, channels, chunks), count)
    chunk = tl.program_id(0)
    total = tl.zeros((BLOCK_CHANNELS,), tl.float32)
    for at in range(chunk * each, tl.minimum(chunk * each + each, tiles)):
        row, entry, inside = _tile(at, channel, rows, channels, inner, ROWS, BLOCK_ENTRIES)
        here = _read(x, row, channel, entry, inside, xn, xc, xi, UNIT)
        if CENTRED:
            here = tl.where(inside, here - mean[None, :, None], 0.0)
            here = here * here
        total += _added(here)
    tl.store(out + (chunk * channels + channel), total, mask=channel < channels)


@triton.jit
def _moved(into, held, statistic, channel, known, kept, momentum):
    """Store a running statistic that has moved towards a new one."""
    running = tl.load(held + channel, mask=known, other=0.0).to(tl.float32)
    result = running * kept + statistic * momentum
    tl.store(into + channel, result.to(into.dtype.element_ty), mask=known)


@triton.jit(
    do_not_specialize=[*_FREE, "bs", "eps", "kept", "momentum"],
    do_not_specialize_on_alignment=["z", "x", "gamma", "beta", "means", "roots", "new_mean",
                                    "new_var", "running_mean", "running_var", "sums", "squares"],
)  # fmt: skip
def value_kernel(
    z, means, roots, new_mean, new_var, x, gamma, beta, running_mean, running_var, sums, squares,
    rows: tl.int64, channels: tl.int64, inner: tl.int32, tiles: tl.int32, each: tl.int32,
    chunks: tl.int32, xn: tl.int64, xc: tl.int64, xi: tl.int64, gs: tl.int64, bs: tl.int64,
    eps: tl.float32, kept: tl.float32, momentum: tl.float32,
    TRAINING: tl.constexpr, ALONE: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr, BLOCK_ENTRIES: tl.constexpr,
):  # fmt: skip
    inner = rowwise.length(inner, UNIT)
    channel = _own(channels, BLOCK_CHANNELS)
    known, count, chunk = channel < channels, rows * inner, tl.program_id(0)
    begin = chunk * each
    row, entry, inside = _tile(begin, channel, rows, channels, inner, ROWS, BLOCK_ENTRIES)
    if not TRAINING:
        mean = tl.load(running_mean + channel, mask=known, other=0.0).to(tl.float32)
        variance = tl.load(running_var + channel, mask=known, other=0.0).to(tl.float32)
    else:
        if ALONE:
            first = _read(x, row, channel, entry, inside, xn, xc, xi, UNIT)
            mean = tl.div_rn(_added(first), count.to(tl.float32))
            first = tl.where(inside, first - mean[None, :, None], 0.0)
            spread = _added(first * first)
        else:
            mean = tl.div_rn(_all_chunks(sums, channel, channels, chunks), count.to(tl.float32))
            spread = _all_chunks(squares, channel, channels, chunks)
        variance = tl.div_rn(spread, count.to(tl.float32))
        if chunk == 0:
            _moved(new_mean, running_mean, mean, channel, known, kept, momentum)
            unbiased = tl.div_rn(spread, (count - 1).to(tl.float32))
            _moved(new_var, running_var, unbiased, channel, known, kept, momentum)
    root = tl.sqrt_rn(variance + eps)
    if chunk == 0:
        tl.store(means + channel, mean, mask=known)
        tl.store(roots + channel, root, mask=known)
    scale = tl.load(gamma + channel * gs, mask=known, other=0.0).to(tl.float32)[None, :, None]
    shift = tl.load(beta + channel * bs, mask=known, other=0.0).to(tl.float32)[None, :, None]
    if ALONE and TRAINING:
        result = tl.div_rn(first, root[None, :, None]) * scale + shift
        _keep(z, row, channel, entry, inside, channels, inner, result, UNIT)
    else:
        for at in range(begin, tl.minimum(begin + each, tiles)):
            row, entry, inside = _tile(at, channel, rows, channels, inner, ROWS, BLOCK_ENTRIES)
            here = _read(x, row, channel, entry, inside, xn, xc, xi, UNIT) - mean[None, :, None]
            result = tl.div_rn(here, root[None, :, None]) * scale + shift
            _keep(z, row, channel, entry, inside, channels, inner, result, UNIT)


@triton.jit
def _entries(
    x, g, at, channel, rows, channels, inner, mean, root, by,
    xn, xc, xi, gn, gc, gi,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK_ENTRIES: tl.constexpr,
):  # fmt: skip
    """Return, for a tile, the normal form, the cotangent, and that by gamma and over the root."""
    row, entry, inside = _tile(at, channel, rows, channels, inner, ROWS, BLOCK_ENTRIES)
    here = _read(x, row, channel, entry, inside, xn, xc, xi, UNIT)
    normal = tl.where(inside, tl.div_rn(here - mean[None, :, None], root[None, :, None]), 0.0)
    cotangent = _read(g, row, channel, entry, inside, gn, gc, gi, UNIT)
    return normal, cotangent, cotangent * by[0][None, :, None] * by[1][None, :, None]


@triton.jit(
    do_not_specialize=[*_FREE, "gn", "gc", "gi"],
    do_not_specialize_on_alignment=["shares", "x", "g", "gamma", "means", "roots"],
)
def shares_kernel(
    shares, x, g, gamma, means, roots,
    rows: tl.int64, channels: tl.int64, inner: tl.int32, tiles: tl.int32, each: tl.int32,
    chunks: tl.int32, xn: tl.int64, xc: tl.int64, xi: tl.int64,
    gn: tl.int64, gc: tl.int64, gi: tl.int64, gs: tl.int64,
    UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK_CHANNELS: tl.constexpr,
    BLOCK_ENTRIES: tl.constexpr,
):  # fmt: skip
    inner = rowwise.length(inner, UNIT)
    channel = _own(channels, BLOCK_CHANNELS)
    known, chunk = channel < channels, tl.program_id(0)
    mean = tl.load(means + channel, mask=known, other=0.0)
    root = tl.load(roots + channel, mask=known, other=1.0)
    scale = tl.load(gamma + channel * gs, mask=known, other=0.0).to(tl.float32)
    by = scale, tl.div_rn(1.0, root)
    dgamma = tl.zeros((BLOCK_CHANNELS,), tl.float32)
    dbeta, total, along = dgamma, dgamma, dgamma
    for at in range(chunk * each, tl.minimum(chunk * each + each, tiles)):
        normal, cotangent, scaled = _entries(
            x, g, at, channel, rows, channels, inner, mean, root, by,
            xn, xc, xi, gn, gc, gi, UNIT, ROWS, BLOCK_ENTRIES,
        )  # fmt: skip
        dgamma += _added(cotangent * normal)
        dbeta += _added(cotangent)
        total += _added(scaled)
        along += _added(scaled * normal)
    step = chunks * channels
    into = shares + (chunk * channels + channel)
    tl.store(into, dgamma, mask=known)
    tl.store(into + step, dbeta, mask=known)
    tl.store(into + 2 * step, total, mask=known)
    tl.store(into + 3 * step, along, mask=known)


@triton.jit(
    do_not_specialize=[*_FREE, "gn", "gc", "gi"],
    do_not_specialize_on_alignment=["dx", "dgamma", "dbeta", "x", "g", "gamma", "means", "roots",
                                    "shares"],
)  # fmt: skip
def vjp_kernel(
    dx, dgamma, dbeta, x, g, gamma, means, roots, shares,
    rows: tl.int64, channels: tl.int64, inner: tl.int32, tiles: tl.int32, each: tl.int32,
    chunks: tl.int32, xn: tl.int64, xc: tl.int64, xi: tl.int64,
    gn: tl.int64, gc: tl.int64, gi: tl.int64, gs: tl.int64,
    TRAINING: tl.constexpr, ALONE: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr, BLOCK_ENTRIES: tl.constexpr,
):  # fmt: skip
    inner = rowwise.length(inner, UNIT)
    channel = _own(channels, BLOCK_CHANNELS)
    known, chunk = channel < channels, tl.program_id(0)
    mean = tl.load(means + channel, mask=known, other=0.0)
    root = tl.load(roots + channel, mask=known, other=1.0)
    scale = tl.load(gamma + channel * gs, mask=known, other=0.0).to(tl.float32)
    by = scale, tl.div_rn(1.0, root)
    begin, step = chunk * each, chunks * channels
    if ALONE:
        normal, cotangent, scaled = _entries(
            x, g, begin, channel, rows, channels, inner, mean, root, by,
            xn, xc, xi, gn, gc, gi, UNIT, ROWS, BLOCK_ENTRIES,
        )  # fmt: skip
        of_gamma, of_beta = _added(cotangent * normal), _added(cotangent)
        total, along = _added(scaled), _added(scaled * normal)
    else:
        of_gamma = _all_chunks(shares, channel, channels, chunks)
        of_beta = _all_chunks(shares + step, channel, channels, chunks)
        total = _all_chunks(shares + 2 * step, channel, channels, chunks)
        along = _all_chunks(shares + 3 * step, channel, channels, chunks)
    if chunk == 0:
        tl.store(dgamma + channel, of_gamma.to(dgamma.dtype.element_ty), mask=known)
        tl.store(dbeta + channel, of_beta.to(dbeta.dtype.element_ty), mask=known)
    count = (rows * inner).to(tl.float32)
    total, along = tl.div_rn(total, count)[None, :, None], tl.div_rn(along, count)[None, :, None]
    if ALONE:
        row, entry, inside = _tile(begin, channel, rows, channels, inner, ROWS, BLOCK_ENTRIES)
        if TRAINING:
            scaled = scaled - total - normal * along
        _keep(dx, row, channel, entry, inside, channels, inner, scaled, UNIT)
    else:
        for at in range(begin, tl.minimum(begin + each, tiles)):
            row, entry, inside = _tile(at, channel, rows, channels, inner, ROWS, BLOCK_ENTRIES)
            normal, cotangent, scaled = _entries(
                x, g, at, channel, rows, channels, inner, mean, root, by,
                xn, xc, xi, gn, gc, gi, UNIT, ROWS, BLOCK_ENTRIES,
            )  # fmt: skip
            if TRAINING:
                scaled = scaled - total - normal * along
            _keep(dx, row, channel, entry, inside, channels, inner, scaled, UNIT)


def plan(*operands: Tensor) -> tuple[dict[str, Any], tuple[int, int], tuple[int, ...]]:
    """Choose the tile, the grid of chunks by channels, and the sizes that a launch is told."""
    rows, channels, inner = operands[0].shape
    rowwise.need_columns(inner)
    meta = tile_of(operands, WIDE, SOME, FEW)
    tiles = -(-rows // meta["ROWS"]) * -(-inner // meta["BLOCK_ENTRIES"])
    each = -(-tiles // MOST_CHUNKS)
    grid = -(-tiles // each), -(-channels // meta["BLOCK_CHANNELS"])
    return meta, grid, (rows, channels, inner, tiles, each, grid[0])


def sharing(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Let fewer threads add up a wide tile in 16 bits.

    With 8 warps a compiler of the allowed ones takes too few registers for a thread, and spills.
    """
    return {**meta, "num_warps": 4} if meta["UNIT"] == IN_16_BITS else dict(meta)


IN_16_BITS = 8
"""How many elements of 16 bits are loaded at once."""

WIDE = {"ROWS": 1, "BLOCK_CHANNELS": 1, "BLOCK_ENTRIES": 2048, "num_warps": 8}
SOME = {"ROWS": 8, "BLOCK_CHANNELS": 4, "BLOCK_ENTRIES": 64, "num_warps": 8}
FEW = {"ROWS": 32, "BLOCK_CHANNELS": 32, "BLOCK_ENTRIES": 1, "num_warps": 8}
"""A tile has so many samples, channels, and entries of these, by how many entries there are."""
