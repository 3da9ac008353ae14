"""Kernels that read and add at given positions of one axis, and their ATen twins.

Adding is deterministic, without atomics: a stable sort groups the terms by target, and one program
per target adds its group in index order. On a device an index out of range reads as zero, adds
nothing and sets the sticky flag.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from fast.device import flags
from fast.device.dtypes import computed_in
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.rows.along_axis import planes, tile

Shape = tuple[int, ...]


@triton.jit(
    do_not_specialize=["rows", "extent", "n", "width", "sa", "sd", "sb"],
    do_not_specialize_on_alignment=["z", "x", "indices"],
)
def _gather_kernel(
    z, x, indices, flag, rows: tl.int64, extent: tl.int64, n: tl.int64, width: tl.int64,
    sa: tl.int64, sd: tl.int64, sb: tl.int64, CODE: tl.constexpr,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    across = (width + BLOCK_C - 1) // BLOCK_C
    row = tl.program_id(0) // across * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(0) % across * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = row < rows
    index = tl.load(indices + row % n, mask=inside, other=0).to(tl.int64)
    bad = (index < 0) | (index >= extent)
    flags.flag_bad(flag, index, inside & bad, CODE)
    start = tl.where(bad, 0, row // n * sa + index * sd)
    mask = (inside & (bad == 0))[:, None] & (column < width)[None, :]
    value = tl.load(x + (start[:, None] + (column * sb)[None, :]), mask=mask, other=0)
    place = (row * width)[:, None] + column[None, :]
    tl.store(z + place, value, mask=inside[:, None] & (column < width)[None, :])


@triton.jit(
    do_not_specialize=["n", "extent", "planes", "width", "xa", "xd", "xb", "ga", "gj", "gb"],
    do_not_specialize_on_alignment=["z", "x", "g", "ordered", "order", "starts"],
)
def _scatter_kernel(
    z, x, g, ordered, order, starts, flag,
    n: tl.int64, extent: tl.int64, planes: tl.int64, width: tl.int64,
    xa: tl.int64, xd: tl.int64, xb: tl.int64, ga: tl.int64, gj: tl.int64, gb: tl.int64,
    ONTO: tl.constexpr, CODE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    across = (width + BLOCK_C - 1) // BLOCK_C
    target = tl.program_id(0) // across % extent
    plane = tl.program_id(0) // across // extent * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(0) % across * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (plane < planes)[:, None] & (column < width)[None, :]
    if ONTO:
        # Of the sorted indices the first or the last is bad if any is.
        asked = (tl.program_id(0) == 0) & (n > 0)
        least = tl.load(ordered, mask=asked, other=0)
        flags.flag_bad(flag, least, asked & (least < 0), CODE)
        most = tl.load(ordered + (n - 1), mask=asked, other=0)
        flags.flag_bad(flag, most, asked & (most >= extent), CODE)
        onto = (plane * xa + target * xd)[:, None] + (column * xb)[None, :]
        total = tl.load(x + onto, mask=mask, other=0).to(tl.float32)
    else:
        total = tl.full([BLOCK_R, BLOCK_C], 0.0, tl.float32)
    offset = (plane * ga)[:, None] + (column * gb)[None, :]
    at = tl.load(starts + target)
    end = tl.load(starts + target + 1)
    while at < end:
        j = tl.load(order + at)
        total += tl.load(g + (offset + j * gj), mask=mask, other=0).to(tl.float32)
        at += 1
    place = ((plane * extent + target) * width)[:, None] + column[None, :]
    tl.store(z + place, total.to(z.dtype.element_ty), mask=mask)


@triton.jit(
    do_not_specialize=["n", "extent", "length", "width", "sa", "sd", "sb"],
    do_not_specialize_on_alignment=["z", "x", "indices"],
)
def _pick_kernel(
    z, x, indices, flag, n: tl.int64, extent: tl.int64, length: tl.int64, width: tl.int64,
    sa: tl.int64, sd: tl.int64, sb: tl.int64, CODE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    index = tl.load(indices + place, mask=inside, other=0).to(tl.int64)
    bad = (index < 0) | (index >= extent)
    flags.flag_bad(flag, index, inside & bad, CODE)
    source = place // width // length * sa + index * sd + place % width * sb
    value = tl.load(x + source, mask=inside & (bad == 0), other=0)
    tl.store(z + place, value, mask=inside)


@triton.jit(
    do_not_specialize=["n"],
    do_not_specialize_on_alignment=["z", "g", "order", "starts"],
)
def _collect_kernel(z, g, order, starts, n: tl.int64, BLOCK: tl.constexpr):
    target = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = target < n
    at = tl.load(starts + target, mask=inside, other=0)
    end = tl.load(starts + target + 1, mask=inside, other=0)
    total = tl.full([BLOCK], 0.0, tl.float32)
    for _ in range(tl.max(end - at, 0)):
        live = at < end
        j = tl.load(order + at, mask=live, other=0)
        total += tl.load(g + j, mask=live, other=0).to(tl.float32)
        at += 1
    tl.store(z + target, total.to(z.dtype.element_ty), mask=inside)


@triton.jit(
    do_not_specialize=["n", "classes"],
    do_not_specialize_on_alignment=["z", "indices"],
)
def _one_hot_kernel(
    z, indices, flag, n: tl.int64, classes: tl.int64, CODE: tl.constexpr, BLOCK: tl.constexpr
):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    index = tl.load(indices + place // classes, mask=inside, other=0).to(tl.int64)
    flags.flag_bad(flag, index, inside & ((index < 0) | (index >= classes)), CODE)
    value = tl.where(index == place % classes, 1.0, 0.0)
    tl.store(z + place, value.to(z.dtype.element_ty), mask=inside)


def flattened(indices: Tensor) -> Tensor:
    """Return the indices as the kernels and torch take them: one row of int64."""
    return indices.reshape(-1).to(torch.int64)


def gather(op: str, x: Tensor, flat: Tensor, axis: int, positions: Shape) -> Tensor:
    """Read x at flat indices, whose own shape stands in place of the axis."""
    x3, (sa, sd, sb) = planes(x, axis, axis + 1)
    before, extent, width = x.shape[:axis].numel(), x.shape[axis], x.shape[axis + 1 :].numel()
    shape = (*x.shape[:axis], *positions, *x.shape[axis + 1 :])
    z = torch.empty(shape, dtype=x.dtype, device=x.device)
    rows, (block_r, block_c) = before * flat.numel(), tile(width)
    launch(
        _gather_kernel, (-(-rows // block_r) * -(-width // block_c),), z, x3, flat,
        flags.word(x.device), rows, extent, flat.numel(), width, sa, sd, sb,
        CODE=flags.code_of(op), BLOCK_R=block_r, BLOCK_C=block_c,
    )  # fmt: skip
    return z


def scatter(
    op: str, onto: Tensor | None, shape: Shape, g: Tensor, flat: Tensor, axis: int, rank: int
) -> Tensor:
    """Add g, at flat indices of `rank` axes of g, onto a tensor of a shape, or onto zeros.

    Bad indices are flagged where there is something to add onto: else the value has seen to it.
    """
    extent, before, width = shape[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
    g3, (ga, gj, gb) = planes(g, axis, axis + rank)
    x3, (xa, xd, xb) = (g3, (0, 0, 0)) if onto is None else planes(onto, axis, axis + 1)
    ordered, order = torch.sort(flat, stable=True)
    starts = torch.searchsorted(ordered, torch.arange(extent + 1, device=flat.device))
    z = torch.empty(shape, dtype=g.dtype, device=g.device)
    if onto is not None and z.numel() == 0:
        flags.guard(op, flat, extent)
    block_r, block_c = tile(width)
    launch(
        _scatter_kernel, (extent * -(-before // block_r) * -(-width // block_c),), z, x3, g3,
        ordered, order, starts, flags.word(z.device),
        flat.numel(), extent, before, width, xa, xd, xb, ga, gj, gb,
        ONTO=onto is not None, CODE=flags.code_of(op), BLOCK_R=block_r, BLOCK_C=block_c,
    )  # fmt: skip
    return z


BLOCK = 1024
"""The entries that a program of the kernels below takes."""


def pick(op: str, x: Tensor, flat: Tensor, axis: int, shape: Shape) -> Tensor:
    """Read x at indices of a shape, which is x's but for the axis; flat holds them row by row."""
    x3, (sa, sd, sb) = planes(x, axis, axis + 1)
    z = torch.empty(shape, dtype=x.dtype, device=x.device)
    n, width = z.numel(), prod(shape[axis + 1 :])
    launch(
        _pick_kernel, (-(-n // BLOCK),), z, x3, flat, flags.word(x.device),
        n, x.shape[axis], shape[axis], width, sa, sd, sb, CODE=flags.code_of(op), BLOCK=BLOCK,
    )  # fmt: skip
    return z


def targets(flat: Tensor, axis: int, shape: Shape, length: int) -> Tensor:
    """Return where in a contiguous tensor of a shape each entry lies that `pick` reads.

    An index out of range has its target behind all others.
    """
    before, extent, width = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    index = flat.reshape(before, length, width)
    outer = torch.arange(before, device=flat.device).reshape(-1, 1, 1)
    inner = torch.arange(width, device=flat.device)
    found = ((outer * extent + index) * width + inner).reshape(-1)
    return found.masked_fill_((flat < 0) | (flat >= extent), prod(shape))


def collect(shape: Shape, g: Tensor, into: Tensor) -> Tensor:
    """Add the entries of g, row by row, at targets in a fresh tensor of a shape."""
    z = torch.empty(shape, dtype=g.dtype, device=g.device)
    ordered, order = torch.sort(into, stable=True)
    starts = torch.searchsorted(ordered, torch.arange(z.numel() + 1, device=g.device))
    launch(
        _collect_kernel, (-(-z.numel() // BLOCK),), z, g.contiguous(), order, starts, z.numel(),
        BLOCK=BLOCK,
    )  # fmt: skip
    return z


def one_hot(op: str, indices: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Write rows of zeros with a one at each index; a bad index has none."""
    z = torch.empty((*indices.shape, classes), dtype=dtype, device=indices.device)
    checks.for_kernels(z)
    flat = flattened(indices).contiguous()
    launch(
        _one_hot_kernel, (-(-z.numel() // BLOCK),), z, flat, flags.word(z.device),
        z.numel(), classes, CODE=flags.code_of(op), BLOCK=BLOCK,
    )  # fmt: skip
    return z


def aten_gather(x: Tensor, flat: Tensor, bad: Tensor | None, axis: int, positions: Shape) -> Tensor:
    """Do the same by torch: flat and bad are what `flags.guard` returned."""
    z = x.index_select(axis, flat)
    if bad is not None:
        z = z.masked_fill(bad.reshape(-1, *(1,) * (x.dim() - axis - 1)), 0)
    # As one tuple: torch refuses to reshape to no extents at all.
    return z.reshape((*x.shape[:axis], *positions, *x.shape[axis + 1 :]))


def aten_scatter(
    onto: Tensor | None, shape: Shape, g: Tensor, flat: Tensor, bad: Tensor | None, axis: int
) -> Tensor:
    """Do the same by torch, in the dtype of computation."""
    wide = computed_in(g.dtype)
    terms = g.reshape(*shape[:axis], flat.numel(), *shape[axis + 1 :]).to(wide)
    if onto is None:
        z = torch.zeros(shape, dtype=wide, device=g.device)
    else:
        z = onto.to(wide, copy=True, memory_format=torch.contiguous_format)
    if bad is None:
        z.index_add_(axis, flat, terms)
    else:
        # On CUDA index_add_ uses atomics; index_put_ sorts, and so keeps one order.
        terms = terms.masked_fill(bad.reshape(-1, *(1,) * (terms.dim() - axis - 1)), 0)
        z.movedim(axis, 0).index_put_((flat,), terms.movedim(axis, 0), accumulate=True)
    return z.to(g.dtype)
