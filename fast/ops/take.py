"""Twin of spec.ops.take.

The gradient is deterministic, without atomics: a stable sort groups the cotangents by target, and
one program per target adds its group in index order. On a device an index out of range reads as
zero, contributes nothing and sets the sticky flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import torch
from torch import Tensor

from fast import _checks, _flags
from fast._device import tl, triton
from fast._examples import Example
from fast._launch import launch
from fast._op import REQUIRED, Gradients, Op, Saved
from fast._pointwise import merged
from fast.errors import Rejected

# (planes or rows, columns): for wide rows behind the axis, and for narrow ones.
WIDE, NARROW, WIDTH = (4, 256), (128, 8), 32
_CODE = _flags.CODES["take"]


@triton.jit(
    do_not_specialize=["rows", "extent", "n", "width", "sa", "sd", "sb", "si"],
    do_not_specialize_on_alignment=["z", "x", "indices"],
)
def _value_kernel(
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
    _flags.flag_bad(flag, index, inside & bad, CODE)
    start = tl.where(bad, 0, row // n * sa + index * sd)
    mask = (inside & (bad == 0))[:, None] & (column < width)[None, :]
    value = tl.load(x + (start[:, None] + (column * sb)[None, :]), mask=mask, other=0)
    place = (row * width)[:, None] + column[None, :]
    tl.store(z + place, value, mask=inside[:, None] & (column < width)[None, :])


@triton.jit(
    do_not_specialize=["extent", "planes", "width", "ga", "gj", "gb"],
    do_not_specialize_on_alignment=["z", "g", "starts", "order"],
)
def _vjp_kernel(
    z, g, starts, order, extent: tl.int64, planes: tl.int64, width: tl.int64,
    ga: tl.int64, gj: tl.int64, gb: tl.int64, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    across = (width + BLOCK_C - 1) // BLOCK_C
    target = tl.program_id(0) // across % extent
    plane = tl.program_id(0) // across // extent * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(0) % across * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (plane < planes)[:, None] & (column < width)[None, :]
    offset = (plane * ga)[:, None] + (column * gb)[None, :]
    total = tl.full([BLOCK_R, BLOCK_C], 0.0, tl.float32)
    at = tl.load(starts + target)
    end = tl.load(starts + target + 1)
    while at < end:
        j = tl.load(order + at)
        total += tl.load(g + (offset + j * gj), mask=mask, other=0).to(tl.float32)
        at += 1
    place = ((plane * extent + target) * width)[:, None] + column[None, :]
    tl.store(z + place, total.to(z.dtype.element_ty), mask=mask)


def check(x: Tensor, indices: Tensor, *, axis: int) -> None:
    """Refuse an axis (C1), a dtype (C2) or, where the host can see it, an index (C3)."""
    _checks.floats("take", x)
    at = _checks.axis("take C1", x.dim(), axis)
    if indices.dtype not in _checks.INTEGERS:
        raise Rejected(f"take C2: the indices are integers, got {indices.dtype}")
    if indices.device != x.device:
        raise Rejected(f"take: inputs lie on one device, got {x.device}, {indices.device}")
    _checks.indices("take C3", indices, x.shape[at])


def value(x: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Read x at the indices; the indices are saved."""
    _checks.for_kernels(x)
    at = axis % x.dim()
    flat = indices.reshape(-1).to(torch.int64).contiguous()
    x3, (sa, sd, sb) = _planes(x, at, at + 1)
    before, extent, width = x.shape[:at].numel(), x.shape[at], x.shape[at + 1 :].numel()
    shape = (*x.shape[:at], *indices.shape, *x.shape[at + 1 :])
    z = torch.empty(shape, dtype=x.dtype, device=x.device)
    rows, (block_r, block_c) = before * flat.numel(), _tile(width)
    launch(
        _value_kernel, (-(-rows // block_r) * -(-width // block_c),), z, x3, flat,
        _flags.word(x.device), rows, extent, flat.numel(), width, sa, sd, sb,
        CODE=_CODE, BLOCK_R=block_r, BLOCK_C=block_c,
    )  # fmt: skip
    return z, (x.shape, at, flat, indices.dim())


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add up, for each entry of x, the cotangents of what was read from it."""
    if not needs[0]:
        return None, None
    shape, at, flat, rank = saved
    extent, planes, width = shape[at], prod(shape[:at]), prod(shape[at + 1 :])
    g, (ga, gj, gb) = _planes(cotangent, at, at + rank)
    ordered, order = torch.sort(flat, stable=True)
    starts = torch.searchsorted(ordered, torch.arange(extent + 1, device=flat.device))
    z = torch.empty(shape, dtype=g.dtype, device=g.device)
    block_r, block_c = _tile(width)
    launch(
        _vjp_kernel, (extent * -(-planes // block_r) * -(-width // block_c),), z, g, starts,
        order, extent, planes, width, ga, gj, gb, BLOCK_R=block_r, BLOCK_C=block_c,
    )  # fmt: skip
    return z, None


def _planes(x: Tensor, begin: int, end: int) -> tuple[Tensor, tuple[int, ...]]:
    """Return the strides of x read as [before, axes begin to end, behind], copied if need be."""
    if x.numel() == 0:
        return x, (0, 0, 0)
    parts = [slice(0, begin), slice(begin, end), slice(end, x.dim())]
    walks = [merged(x.shape[part], (x.stride()[part],))[1][0] for part in parts]
    if any(len(walk) > 1 for walk in walks):
        return _planes(x.contiguous(), begin, end)
    return x, tuple(walk[0] if walk else 0 for walk in walks)


def _tile(width: int) -> tuple[int, int]:
    return WIDE if width > WIDTH else NARROW


def aten_value(x: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, Saved]:
    """Read x at the indices; the indices are saved."""
    at = axis % x.dim()
    flat, bad = _flags.guard("take", indices.reshape(-1), x.shape[at])
    z = x.index_select(at, flat)
    if bad is not None:
        z = z.masked_fill(bad.reshape(-1, *(1,) * (x.dim() - at - 1)), 0)
    shape = (*x.shape[:at], *indices.shape, *x.shape[at + 1 :])
    return z.reshape(shape), (x.shape, at, flat, bad)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Add up, for each entry of x, the cotangents of what was read from it."""
    if not needs[0]:
        return None, None
    shape, at, flat, bad = saved
    wide = torch.float32 if cotangent.dtype is torch.bfloat16 else cotangent.dtype
    g = cotangent.reshape(*shape[:at], flat.numel(), *shape[at + 1 :]).to(wide)
    z = torch.zeros(shape, dtype=wide, device=g.device)
    if bad is None:
        z.index_add_(at, flat, g)
    else:
        # On CUDA index_add_ uses atomics; index_put_ sorts, and so keeps one order.
        g = g.masked_fill(bad.reshape(-1, *(1,) * (g.dim() - at - 1)), 0)
        z.movedim(at, 0).index_put_((flat,), g.movedim(at, 0), accumulate=True)
    return z.to(cotangent.dtype), None


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield wide rows and narrow ones."""
    x, indices = torch.ones(8, 512, dtype=dtype), torch.zeros(2, 3, dtype=torch.int64)
    yield (x, indices), {"axis": 0}
    yield (x, indices), {"axis": 1}


op = Op(
    "take", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "indices"), index_inputs=(1,), attributes={"axis": REQUIRED},
)  # fmt: skip
