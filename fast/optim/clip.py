"""Twin of spec.optim.clip.

The norm and the coefficient stay on the device. Triton: a program per chunk adds up the squares of
its entries, one more program adds up the chunks' sums in their order, and the update's kernel
multiplies every entry that it reads by the coefficient. Nothing is added atomically, and only
chunks of updated parameters are read, so that what other slots still hold does not count.

Arithmetic: squares, sums, root, the sum with R(1e-6), the quotient and the product with an entry
are fp32 (fp64 in arenas of it), each rounded once; the sums of a chunk form a tree. max_norm is
rounded once, to at most the largest finite number.

The ATen twin adds up by torch.dot over each run of neighbouring slots, contracted, and hands the
fused kernels gradients that were multiplied before, in 16 bits as fp32.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.optim._chunks import CHUNK, ChunkTable
from fast.optim._rule import as_double, finite_and_not_negative, need

GUARD = 1e-6
"""What is added to the norm, so that none divides by zero."""


def check(max_norm: Any) -> float:
    """Return max_norm as a float, or refuse what breaks C1 of spec.optim.clip."""
    if type(max_norm) is not float:
        if isinstance(max_norm, bool) or not isinstance(max_norm, (int, float)):
            raise Rejected(f"clip: max_norm must be a number, got {max_norm!r}")
        max_norm = as_double("clip: max_norm", max_norm)
    holds = finite_and_not_negative(max_norm) and max_norm > 0
    need("clip C1", holds, "max_norm is finite and > 0", max_norm)
    return float(max_norm)


@triton.jit
def _squares_kernel(g, offsets, lengths, sums, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    place = tl.multiple_of(tl.load(offsets + program), 64) + lane
    inside = lane < tl.load(lengths + program)
    grad = tl.load(g + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(sums + program, tl.sum(grad * grad, 0))


@triton.jit(do_not_specialize=["count", "max_norm"])
def _coefficient_kernel(sums, scale, count, max_norm, GUARD: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        total += tl.load(sums + start + lane, mask=start + lane < count, other=0.0)
    norm = tl.sqrt_rn(tl.sum(total, 0))
    share = tl.div_rn(max_norm, norm + GUARD)
    # NaN is not above 1, so it survives.
    tl.store(scale, tl.where(share > 1.0, 1.0, share))


def squares(grads: Tensor, table: ChunkTable) -> Tensor:
    """Add up the squares of each chunk of an arena."""
    sums = torch.empty(table.chunks, dtype=torch.float32, device=grads.device)
    launch(
        _squares_kernel, (table.chunks,), grads, table.offsets, table.lengths, sums,
        BLOCK=CHUNK, num_warps=4,
    )  # fmt: skip
    return sums


def coefficient(sums: Tensor, max_norm: float) -> Tensor:
    """Return the number that scales all gradients, whose squares have these partial sums."""
    scale = torch.empty(1, dtype=torch.float32, device=sums.device)
    bound = min(max_norm, torch.finfo(torch.float32).max)
    launch(
        _coefficient_kernel, (1,), sums, scale, sums.numel(), bound,
        GUARD=GUARD, BLOCK=CHUNK, num_warps=4,
    )  # fmt: skip
    return scale


def aten_squares(runs: Iterable[Tensor]) -> Tensor:
    """Add up the squares of each run of an arena, of which there is at least one."""
    return torch.stack([torch.dot(run, run) for run in map(wide, runs)])


def aten_coefficient(sums: Tensor, max_norm: float) -> Tensor:
    """Return the number that scales all gradients, whose squares have these partial sums."""
    norm = sums.sum().sqrt_()
    bound = torch.full_like(norm, min(max_norm, torch.finfo(norm.dtype).max))
    return bound.div_(norm.add_(GUARD)).clamp_(max=1.0)


def scale(provider: str, sums: Tensor, max_norm: float) -> Tensor:
    """Return the coefficient by a provider's own kernels."""
    return (coefficient if provider == "triton" else aten_coefficient)(sums, max_norm)
