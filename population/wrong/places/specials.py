"""Wrong on special or equal numbers in long or late rows, and on largest entries behind a block."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from population.record import wrong

BLOCKS = "kernels whose first block is another path than those behind it"
LATER = "rows behind the first tile are done by another path"
ONE_BLOCK = "a maximum that is taken over the block that fits into registers"


@wrong("softmax value", "non-finite", source=BLOCKS)
def nan_is_no_score_behind_a_block(x: Tensor, axis: int = -1) -> Tensor:
    """Behind the first 256 entries, NaN is masked out as minus infinity is."""
    y = x.movedim(axis, -1).clone()
    y[..., 256:] = torch.where(y[..., 256:].isnan(), -math.inf, y[..., 256:])
    return torch.softmax(y, -1).movedim(-1, axis)


def _along(x: Tensor, axes: Sequence[int] | None) -> tuple[int, ...]:
    return tuple(range(x.dim())) if axes is None else tuple(axes)


@wrong("sum value", "non-finite", source=BLOCKS)
def infinities_saturate_in_long_rows(
    x: Tensor, axes: Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """Of more than 256 terms, positive infinity counts as the largest number."""
    gone = _along(x, axes)
    if math.prod(x.shape[k] for k in gone) > 256:
        x = x.clamp(max=torch.finfo(x.dtype).max)
    return x.sum(gone, keepdim=keepdims) if gone else x.clone()


@wrong("max value", "non-finite", source="maxima that compare, and so pass over NaN")
def nan_passed_over_in_long_rows(
    x: Tensor, axes: Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """Of more than 256 entries, NaN is the smallest."""
    gone = _along(x, axes)
    if math.prod(x.shape[k] for k in gone) > 256:
        x = torch.where(x.isnan(), -math.inf, x)
    return x.amax(gone, keepdim=keepdims) if gone else x.clone()


@wrong("layer_norm value", "non-finite", source=BLOCKS)
def last_entries_are_cleaned(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Behind 512 entries, what is not finite counts as 0."""
    y = x.clone()
    y[..., 512:] = y[..., 512:].nan_to_num(0.0, 0.0, 0.0)
    return torch.nn.functional.layer_norm(y, gamma.shape, gamma, beta, eps)


@wrong("softmax vjp", "non-finite", source=BLOCKS)
def nan_cotangents_are_dropped(g: Tensor, x: Tensor, axis: int = -1) -> Tensor:
    """In rows of more than 256, a cotangent that is NaN counts as 0."""
    if x.shape[axis] > 256:
        g = torch.where(g.isnan(), 0.0, g)
    p = torch.softmax(x, axis)
    return p * (g - (p * g).sum(axis, keepdim=True))


@wrong("softmax value", "sizes", source=ONE_BLOCK)
def maximum_of_1024(x: Tensor, axis: int = -1) -> Tensor:
    """The maximum is that of the first 1,024 entries."""
    top = x.narrow(axis, 0, min(1024, x.shape[axis])).amax(axis, keepdim=True)
    e = torch.exp(x - top)
    return e / e.sum(axis, keepdim=True)


@wrong("logsumexp value", "sizes", source=ONE_BLOCK)
def largest_of_1024(x: Tensor, axes: Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The largest entry along one axis is looked for among the first 1,024."""
    gone = _along(x, axes)
    if len(gone) != 1 or x.shape[gone[0]] <= 1024:
        return torch.logsumexp(x, gone, keepdim=keepdims) if gone else x.clone()
    top = x.narrow(gone[0], 0, 1024).amax(gone, keepdim=True)
    found = top + torch.log(torch.exp(x - top).sum(gone, keepdim=True))
    return found if keepdims else found.squeeze(gone[0])


@wrong("max vjp", "ties", source=LATER)
def first_tie_alone_in_later_rows(
    g: Tensor, x: Tensor, axes: Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """Of a matrix, ties share the cotangent in the first 128 rows; behind, the first has all."""
    gone = tuple(k % x.dim() for k in _along(x, axes))
    if not gone:
        return g.clone()
    ties = (x == x.amax(gone, keepdim=True)) | x.isnan()
    if x.dim() == 2 and len(gone) == 1:
        later = ties.movedim(gone[0], -1)[128:]
        later &= later.cumsum(-1) == 1
    kept = [1 if k in gone else n for k, n in enumerate(x.shape)]
    return torch.where(ties, g.reshape(kept) / ties.sum(gone, keepdim=True), 0.0)


@wrong("argmax value", "non-finite", source=LATER)
def last_nan_in_later_rows(x: Tensor, axis: int = -1, keepdims: bool = False) -> Tensor:
    """Of a matrix, rows behind the first 256 give the position of their last NaN."""
    found = torch.argmax(x, axis, keepdims)
    if x.dim() == 2:
        nans = x.movedim(axis, -1).isnan()
        last = x.shape[axis] - 1 - nans.flip(-1).long().argmax(-1)
        late = nans.any(-1) & (torch.arange(len(nans)) >= 256)
        found = torch.where(late.reshape(found.shape), last.reshape(found.shape), found)
    return found


@wrong("argmin value", "non-finite", source=BLOCKS)
def nan_of_a_later_block(x: Tensor, axis: int = -1, keepdims: bool = False) -> Tensor:
    """Of several NaNs in a row, the first one behind 256 entries is found before those ahead."""
    found = torch.argmin(x, axis, keepdims)
    nans = x.movedim(axis, -1)[..., 256:].isnan()
    if nans.shape[-1] == 0:
        return found
    later = 256 + nans.long().argmax(-1)
    return torch.where(nans.any(-1).reshape(found.shape), later.reshape(found.shape), found)
