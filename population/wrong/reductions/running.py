"""Wrong sums and products that are kept on the way."""

from __future__ import annotations

import torch
from torch import Tensor

from population.record import wrong

REVERSED = "https://github.com/fla-org/flash-linear-attention/pull/1095"
SCANNED = "https://github.com/triton-lang/triton/issues/2361"


def _sums(x: Tensor, axis: int, reverse: bool, exclusive: bool) -> Tensor:
    """Add up, in the dtype of the tensor."""
    turned = x.flip(axis) if reverse else x
    sums = torch.cumsum(turned, axis)
    if exclusive:
        sums = torch.cat((torch.zeros_like(sums.narrow(axis, 0, 1)), sums), axis)
        sums = sums.narrow(axis, 0, x.shape[axis])
    return sums.flip(axis).clone() if reverse else sums.clone()


@wrong("cumsum value", "precision", source=REVERSED)
def reverse_from_the_total(
    x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """What is added from the end is the total less what comes before, which cancels."""
    if not reverse:
        return _sums(x, axis, reverse, exclusive)
    total = x.sum(axis, keepdim=True)
    return total - _sums(x, axis, False, not exclusive)


@wrong("cumsum value", "precision", source=REVERSED)
def exclusive_by_a_difference(
    x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """An entry is left out by subtracting it again, which leaves NaN of what is infinite."""
    sums = _sums(x, axis, reverse, False)
    return sums - x if exclusive else sums


@wrong("cumsum value", "sizes", source=SCANNED)
def carry_of_the_first_block(
    x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """Behind the second block of 128, the sum of the blocks before is that of the first one."""
    sums = _sums(x, axis, reverse, exclusive)
    y, z = x.movedim(axis, -1), sums.movedim(axis, -1).clone()
    if reverse or exclusive or y.shape[-1] <= 256:
        return sums
    carried = y[..., 128:256].sum(-1, keepdim=True)
    z[..., 256:] -= carried
    return z.movedim(-1, axis)


@wrong("cumsum vjp", "gradient", source="gradients of scans by the forward scan")
def gradient_in_the_same_direction(
    g: Tensor, x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """The cotangent of a square matrix is added up in the direction of the value."""
    square = x.dim() == 2 and x.shape[0] == x.shape[1]
    return _sums(g, axis, reverse if square else not reverse, exclusive)


@wrong("cumsum vjp", "dtype", dtypes=("bf16",), source="scans in the dtype of their tensor")
def added_up_in_storage(
    g: Tensor, x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """Every sum on the way is rounded to bf16."""
    y = g.movedim(axis, -1)
    parts = list(y.unbind(-1)) if reverse else list(reversed(y.unbind(-1)))
    total, found = torch.zeros_like(parts[0]), list[Tensor]()
    for part in parts:
        found.append(total)
        total = total + part
        found[-1] = found[-1] if exclusive else total
    return torch.stack(found if reverse else found[::-1], -1).movedim(-1, axis).clone()
