"""Twin of spec.optim.clip.

Gradients are multiplied by 1 / grad_scale, rounded once, before anything else looks at them.

The norm and the coefficient stay on the device. Triton: a program per chunk adds up the squares of
its entries, one more program adds up the chunks' sums in their order, and the update's kernel
multiplies every entry that it reads by the coefficient. Nothing is added atomically, and only
chunks of updated parameters are read, so that what other slots still hold does not count.

Arithmetic: squares, sums, root, the sum with R(1e-6), the quotient, its product with R(1 /
grad_scale) and the product with an entry are fp32 (fp64 in arenas of it), each rounded once; the
sums of a chunk form a tree. max_norm is rounded once, to at most the largest finite number.

The ATen twin adds up by torch.dot over each run of neighbouring slots, contracted, and hands the
fused kernels gradients that were multiplied before, in 16 bits as fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from fast.device.arena import ALIGNMENT
from fast.device.bridge import round_number
from fast.device.dtypes import computed_in, wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.optim._chunks import CHUNK, ChunkTable, Run
from fast.optim._kernels import lanes
from fast.optim._rule import as_double, finite_and_not_negative, need

GUARD = 1e-6
"""What is added to the norm, so that none divides by zero."""


def check(max_norm: Any) -> float:
    """Return max_norm as a float, or refuse what breaks C1 of spec.optim.clip."""
    return _positive("C1", "max_norm", max_norm)


def check_scale(grad_scale: Any) -> float:
    """Return grad_scale as a float, or refuse what breaks C2 of spec.optim.clip."""
    return _positive("C2", "grad_scale", grad_scale)


def _positive(label: str, name: str, given: Any) -> float:
    number = as_double(f"clip: {name}", given)
    holds = finite_and_not_negative(number) and number > 0
    need(f"clip {label}", holds, f"{name} is finite and > 0", number)
    return number


@triton.jit(do_not_specialize=["inverse"])
def _squares_kernel(
    g, offsets, lengths, sums, inverse: tl.float32, BLOCK: tl.constexpr, PADDED: tl.constexpr
):
    program = tl.program_id(0)
    place = tl.multiple_of(tl.load(offsets + program), 64) + tl.arange(0, BLOCK)
    inside, covered = lanes(lengths, program, BLOCK, PADDED)
    grad = tl.load(g + place, mask=covered, other=0.0).to(tl.float32) * inverse
    grad = tl.where(inside, grad, 0.0)
    tl.store(sums + program, tl.sum(grad * grad, 0))


@triton.jit(do_not_specialize=["count", "max_norm", "inverse"])
def _coefficient_kernel(
    sums, scale, count, max_norm, inverse: tl.float32, GUARD: tl.constexpr, BLOCK: tl.constexpr
):
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        total += tl.load(sums + start + lane, mask=start + lane < count, other=0.0)
    norm = tl.sqrt_rn(tl.sum(total, 0))
    share = tl.div_rn(max_norm, norm + GUARD)
    # NaN is not above 1, so it survives.
    tl.store(scale, tl.where(share > 1.0, 1.0, share) * inverse)


def squares(grads: Tensor, table: ChunkTable, inverse: float = 1.0) -> Tensor:
    """Add up the squares of each chunk of an arena, each entry multiplied by `inverse` before."""
    sums = torch.empty(table.chunks, dtype=torch.float32, device=grads.device)
    launch(
        _squares_kernel, (table.chunks,), grads, table.offsets, table.lengths, sums, inverse,
        BLOCK=CHUNK, PADDED=ALIGNMENT, num_warps=4,
    )  # fmt: skip
    return sums


def coefficient(sums: Tensor, max_norm: float, inverse: float = 1.0) -> Tensor:
    """Return the number that scales all gradients, `inverse` included; `squares` left the sums."""
    scale = torch.empty(1, dtype=torch.float32, device=sums.device)
    bound = min(max_norm, torch.finfo(torch.float32).max)
    launch(
        _coefficient_kernel, (1,), sums, scale, sums.numel(), bound, inverse,
        GUARD=GUARD, BLOCK=CHUNK, num_warps=4,
    )  # fmt: skip
    return scale


def aten_squares(grads: Tensor, runs: Iterable[Run], inverse: float = 1.0) -> Tensor:
    """Do as `squares` does for each run of an arena, of which there is at least one."""
    found = (wide(grads[run.start : run.end]) for run in runs)
    if inverse != 1.0:
        found = (run * inverse for run in found)
    return torch.stack([torch.dot(run, run) for run in found])


def aten_coefficient(sums: Tensor, max_norm: float, inverse: float = 1.0) -> Tensor:
    """Do as `coefficient` does."""
    norm = sums.sum().sqrt_()
    bound = torch.full_like(norm, min(max_norm, torch.finfo(norm.dtype).max))
    share = bound.div_(norm.add_(GUARD)).clamp_(max=1.0)
    return share if inverse == 1.0 else share.mul_(inverse)


def of_update(
    provider: str,
    gradients: Tensor,
    squares: Callable[[float], Tensor],
    max_norm: float | None,
    grad_scale: float,
) -> Tensor:
    """Return the number that an update multiplies an arena's gradients by, on their device.

    `squares` adds up the squares of what is updated, each entry multiplied by its argument before.
    """
    dtype = computed_in(gradients.dtype)
    inverse = inverse_of(grad_scale, dtype)
    if max_norm is None:
        return gradients.new_full((1,), inverse, dtype=dtype)
    return scale(provider, squares(inverse), max_norm, inverse)


def inverse_of(grad_scale: float, dtype: torch.dtype) -> float:
    """Return 1 / grad_scale, rounded once."""
    return 1.0 if grad_scale == 1.0 else round_number(1 / Fraction(grad_scale), dtype)


def scale(provider: str, sums: Tensor, max_norm: float, inverse: float = 1.0) -> Tensor:
    """Return the coefficient by a provider's own kernels."""
    return (coefficient if provider == "triton" else aten_coefficient)(sums, max_norm, inverse)
