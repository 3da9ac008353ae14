"""Right places of the largest and the smallest, found in other ways."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.record import right


def _in_row(x: Tensor, axis: int | None) -> Tensor:
    """Lay what is searched along the last axis."""
    return x.reshape(-1) if axis is None else x.movedim(axis, -1)


def _shaped(places: Tensor, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if not keepdims:
        return places
    return places.reshape((1,) * x.dim()) if axis is None else places.unsqueeze(axis)


@right("argmax", "ties")
def least_index_of_those_that_tie(
    x: Tensor, axis: int | None = None, keepdims: bool = False
) -> Tensor:
    """Each entry that equals the largest names its index, and the least of these is taken."""
    row = _in_row(x, axis)
    n = row.shape[-1]
    ties = (row == row.amax(-1, keepdim=True)) | row.isnan()
    found = torch.where(ties, torch.arange(n), n).amin(-1)
    return _shaped(found, x, axis, keepdims)


@right("argmin", "structure", source="segmented searches, as in FlagGems")
def smallest_of_the_blocks(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Each block of 32 finds its own, and the first of the blocks with the smallest has it."""
    row = torch.where(_in_row(x, axis).isnan(), -math.inf, _in_row(x, axis))
    nan = _in_row(x, axis).isnan().any(-1)
    starts = range(0, row.shape[-1], 32)
    own = [torch.argmin(row[..., k : k + 32], -1) + k for k in starts]
    least = torch.stack([row[..., k : k + 32].amin(-1) for k in starts], -1)
    block = torch.argmin(least, -1)
    found = torch.stack(own, -1).gather(-1, block.unsqueeze(-1)).squeeze(-1)
    first_nan = torch.argmax(_in_row(x, axis).isnan().to(torch.uint8), -1)
    return _shaped(torch.where(nan, first_nan, found), x, axis, keepdims)
