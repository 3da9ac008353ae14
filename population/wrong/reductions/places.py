"""Wrong places of the largest and the smallest: ties, NaN, zeros, blocks, layouts, and dtypes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.tensors import strides_ignored
from population.record import wrong

TIES = "https://github.com/pytorch/pytorch/issues/93630"
NANS = "https://github.com/ml-explore/mlx/issues/4274"
ROUNDED = "https://github.com/pytorch/pytorch/pull/184346"
SIGNS = "https://github.com/tenstorrent/tt-metal/issues/55346"
NEGATIVE = "https://github.com/apache/mxnet/issues/9007"

Axis = int | None


def _last(x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    row = x.reshape(-1) if axis is None else x.movedim(axis, -1)
    found = row.shape[-1] - 1 - torch.argmax(row.flip(-1), -1)
    return found.reshape(torch.argmax(x, axis, keepdims).shape)


@wrong("argmax", "ties", source=TIES)
def last_of_a_tie(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """A later entry that is as large takes the place."""
    return _last(x, axis, keepdims)


@wrong("argmax", "non-finite", source=NANS)
def nan_is_passed_over(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """NaN counts as minus infinity."""
    return torch.argmax(torch.where(x.isnan(), -math.inf, x), axis, keepdims)


@wrong("argmax", "precision", source=ROUNDED, dtypes=("bf16",))
def place_kept_in_the_dtype(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The place passes through the dtype of the numbers, which rounds those beyond 256."""
    return torch.argmax(x, axis, keepdims).to(x.dtype).long()


@wrong("argmax", "ties", source=SIGNS)
def zeros_are_ordered_by_sign(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """+0 is larger than an earlier -0, as their bits are."""
    least = torch.finfo(x.dtype).smallest_normal
    return torch.argmax(torch.where((x == 0) & ~x.signbit(), least, x), axis, keepdims)


@wrong("argmax", "range", source=NEGATIVE)
def largest_starts_at_zero(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Nothing below 0 is larger than what the search starts with, so place 0 remains."""
    return torch.argmax(x.clamp_min(0.0), axis, keepdims)


@wrong("argmin", "ties", source=TIES)
def last_of_the_smallest(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """A later entry that is as small takes the place."""
    return _last(-x, axis, keepdims)


@wrong("argmin", "non-finite", source=NANS)
def nan_is_never_least(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """NaN counts as infinity."""
    return torch.argmin(torch.where(x.isnan(), math.inf, x), axis, keepdims)


@wrong("argmin", "sizes", source="masked loads with the wrong other=")
def padding_is_least(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """A block that is not full is filled with 0, whose place lies behind the last entry."""
    count = x.numel() if axis is None else x.shape[axis]
    found = torch.argmin(x, axis, keepdims)
    if count % 32 == 0:
        return found
    least = torch.amin(x, tuple(range(x.dim())) if axis is None else axis, keepdims)
    return torch.where(least > 0, count, found)


@wrong("argmin", "layout", source="places read as if the tensor were contiguous")
def entries_in_order_of_storage(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The strides of the input are ignored."""
    return torch.argmin(strides_ignored(x), axis, keepdims)
