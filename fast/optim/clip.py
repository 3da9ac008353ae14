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

Where entries are clipped by a value, or a group has a norm of its own, gradients are clipped in a
copy, before the update reads it: R(g * R(1 / grad_scale)) is clamped to the value, rounded once, to
at most the largest finite number; the squares of what comes out are added up as above, for each
norm apart; and the copy is multiplied by the coefficient of its norm, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.arena import ALIGNMENT
from fast.device.bridge import round_number
from fast.device.dtypes import computed_in, wide
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.optim._chunks import CHUNK, ChunkTable, Run
from fast.optim._kernels import keep, lanes
from fast.optim._rule import Groups, as_double, finite_and_not_negative, need

GUARD = 1e-6
"""What is added to the norm, so that none divides by zero."""


def check(max_norm: Any) -> float:
    """Return max_norm as a float, or refuse what breaks C1 of spec.optim.clip."""
    return _positive("C1", "max_norm", max_norm)


def check_scale(grad_scale: Any) -> float:
    """Return grad_scale as a float, or refuse what breaks C2 of spec.optim.clip."""
    return _positive("C2", "grad_scale", grad_scale)


class Bounds(NamedTuple):
    """Bounds beyond one norm of everything: of each group's entries, and of several norms.

    `values` and `sets` are by group, group 0 first: the largest magnitude of an entry, and the norm
    that its gradients belong to. `norms` are the largest ones; the first is of all that share it.
    """

    values: tuple[float | None, ...]
    sets: tuple[int, ...]
    norms: tuple[float | None, ...]


def bounds_of(max_norm: float | None, max_value: Any, groups: Groups) -> Bounds | None:
    """Return the bounds of an update, or None where there is at most one norm of everything.

    What breaks C1 or C3 of spec.optim.clip is refused. The groups are mappings.
    """
    usual = None if max_value is None else _positive("C3", "max_value", max_value)
    values, sets, norms = [usual], [0], [max_norm]
    for group in groups or ():
        own, norm = group.get("max_value", max_value), group.get("max_norm")
        values.append(None if own is None else _positive("C3", "max_value", own))
        sets.append(len(norms) if "max_norm" in group else 0)
        if "max_norm" in group:
            norms.append(None if norm is None else check(norm))
    if len(norms) == 1 and not any(values):
        return None
    return Bounds(tuple(values), tuple(sets), tuple(norms))


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


@triton.jit
def _share(total, most, GUARD: tl.constexpr):
    share = tl.div_rn(most, tl.sqrt_rn(total) + GUARD)
    # NaN is not above 1, so it survives.
    return tl.where(share > 1.0, 1.0, share)


@triton.jit(do_not_specialize=["count", "max_norm", "inverse"])
def _coefficient_kernel(
    sums, scale, count, max_norm, inverse: tl.float32, GUARD: tl.constexpr, BLOCK: tl.constexpr
):
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        total += tl.load(sums + start + lane, mask=start + lane < count, other=0.0)
    tl.store(scale, _share(tl.sum(total, 0), max_norm, GUARD) * inverse)


@triton.jit(do_not_specialize=["inverse"])
def _clamp_kernel(
    g, into, offsets, lengths, groups, values, sums,
    inverse: tl.float32, BLOCK: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    place = tl.multiple_of(tl.load(offsets + program), 64) + tl.arange(0, BLOCK)
    inside, covered = lanes(lengths, program, BLOCK, PADDED)
    grad = tl.load(g + place, mask=covered, other=0.0).to(tl.float32) * inverse
    most = tl.load(values + tl.load(groups + program)).to(tl.float32)
    # Below 0 there is no bound. NaN is neither above nor below one, so it survives.
    if most >= 0.0:
        grad = tl.where(grad > most, most, tl.where(grad < -most, -most, grad))
    keep(into, place, grad, inside, covered)
    tl.store(sums + program, tl.sum(tl.where(inside, grad * grad, 0.0), 0))


@triton.jit(do_not_specialize=["count"])
def _coefficients_kernel(
    sums, owners, norms, scales, count, GUARD: tl.constexpr, BLOCK: tl.constexpr
):
    owner, lane = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        inside = start + lane < count
        found = tl.load(sums + start + lane, mask=inside, other=0.0)
        own = tl.load(owners + start + lane, mask=inside, other=-1) == owner
        total += tl.where(own, found, 0.0)
    most = tl.load(norms + owner).to(tl.float32)
    share = _share(tl.sum(total, 0), most, GUARD)
    tl.store(scales + owner, tl.where(most < 0.0, 1.0, share))


@triton.jit
def _scale_kernel(
    into, offsets, lengths, owners, scales, BLOCK: tl.constexpr, PADDED: tl.constexpr
):
    program = tl.program_id(0)
    place = tl.multiple_of(tl.load(offsets + program), 64) + tl.arange(0, BLOCK)
    inside, covered = lanes(lengths, program, BLOCK, PADDED)
    grad = tl.load(into + place, mask=covered, other=0.0)
    keep(into, place, grad * tl.load(scales + tl.load(owners + program)), inside, covered)


class Clamped(NamedTuple):
    """A copy of an arena's gradients, clamped: where it was written, the squares, and whose.

    `owners` say by chunk, or by run, to which of the norms it belongs: on the device, or a list.
    """

    into: Tensor
    where: ChunkTable | list[Run]
    sums: Tensor
    owners: Any


def clamped(
    grads: Tensor, into: Tensor, where: ChunkTable | list[Run], bounds: Bounds, inverse: float
) -> Clamped:
    """Write the gradients of chunks, or runs, times `inverse` into a copy, clamped by their groups.

    The copy is of the dtype in which an update of these gradients computes.
    """
    most = torch.finfo(into.dtype).max
    values = [None if value is None else min(value, most) for value in bounds.values]
    if isinstance(where, ChunkTable):
        sums = torch.empty(where.chunks, dtype=torch.float32, device=grads.device)
        launch(
            _clamp_kernel, (where.chunks,), grads, into, where.offsets, where.lengths, where.groups,
            _table(values, grads), sums, inverse, BLOCK=CHUNK, PADDED=ALIGNMENT, num_warps=4,
        )  # fmt: skip
        sets = torch.tensor(bounds.sets, dtype=torch.int32, device=grads.device)
        return Clamped(into, where, sums, sets[where.groups.long()])
    sums = []
    for run in where:
        part, value = into[run.start : run.end], values[run.group]
        torch.mul(wide(grads[run.start : run.end]), inverse, out=part)
        if value is not None:
            part.clamp_(-value, value)
        sums.append(torch.dot(part, part))
    stacked = torch.stack(sums) if sums else into.new_zeros(0)
    return Clamped(into, where, stacked, [bounds.sets[run.group] for run in where])


def _table(numbers: Sequence[float | None], like: Tensor) -> Tensor:
    """Put bounds on the device of a tensor, below 0 where there is none."""
    found = [-1.0 if number is None else number for number in numbers]
    return torch.tensor(found, dtype=torch.float64, device=like.device)


def scale_sets(parts: Sequence[Clamped], bounds: Bounds) -> None:
    """Multiply copies, which share their norms, by the coefficients of these."""
    if not any(bounds.norms):
        return
    tables = [part.where for part in parts if isinstance(part.where, ChunkTable)]
    if not tables:
        _scale_runs(parts, bounds)
        return
    sums = torch.cat([part.sums for part in parts])
    owners = torch.cat([part.owners for part in parts])
    most = torch.finfo(torch.float32).max
    norms = _table([None if norm is None else min(norm, most) for norm in bounds.norms], sums)
    scales = torch.empty(len(bounds.norms), dtype=torch.float32, device=sums.device)
    launch(
        _coefficients_kernel, (len(bounds.norms),), sums, owners, norms, scales, sums.numel(),
        GUARD=GUARD, BLOCK=CHUNK, num_warps=4,
    )  # fmt: skip
    for part, table in zip(parts, tables, strict=True):
        launch(
            _scale_kernel, (table.chunks,), part.into, table.offsets, table.lengths, part.owners,
            scales, BLOCK=CHUNK, PADDED=ALIGNMENT, num_warps=4,
        )  # fmt: skip


def _scale_runs(parts: Sequence[Clamped], bounds: Bounds) -> None:
    for owner, norm in enumerate(bounds.norms):
        own = [
            (part, k, run)
            for part in parts
            for k, run in enumerate(part.where)
            if norm is not None and part.owners[k] == owner
        ]
        if own and norm is not None:
            found = aten_coefficient(torch.stack([part.sums[k] for part, k, _ in own]), norm)
            for part, _, run in own:
                part.into[run.start : run.end].mul_(found)


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
