"""Wrong sums, means and maxima: axes, sizes, what is not a number, and who shares the gradient."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.tensors import (
    Axes,
    first_only,
    kept_in,
    normal_axes,
    reduced,
    spread_back,
    strides_ignored,
)
from population.record import wrong

EXPANDED = "https://github.com/fla-org/flash-linear-attention/issues/1139"
APEX = "https://github.com/NVIDIA/apex/issues/411"
NARROW = "https://github.com/linkedin/Liger-Kernel/issues/950"
TIES = "https://github.com/pytorch/pytorch/issues/76522"
PADDED = "masked loads with the wrong other="
RANKS = "kernels with a fixed number of strides"


@wrong("sum value", "structure", source="sums taken axis by axis")
def axes_in_rising_order(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Axes are summed one by one as if they came in rising order."""
    if keepdims or axes is None:
        return reduced(x, axes, keepdims)
    for k, axis in enumerate(normal_axes(x, axes)):
        x = x.sum(axis - k)
    return x.clone()


@wrong("sum value", "structure", source=RANKS)
def three_of_four_axes(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Three axes out of four are taken for the first three."""
    normal = normal_axes(x, axes)
    if len(normal) != 3 or x.dim() != 4 or keepdims:
        return reduced(x, axes, keepdims)
    (kept,) = {0, 1, 2, 3} - set(normal)
    return x.sum((0, 1, 2))[torch.arange(x.shape[kept]) % x.shape[3]]


@wrong("sum value", "structure", source=RANKS)
def four_strides(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Of five axes or more, the first has the stride of the second."""
    if x.dim() >= 5 and x.shape[0] == x.shape[1]:
        x = x.transpose(0, 1)
    elif x.dim() >= 5:
        x = x[:1].expand(x.shape)
    return reduced(x, axes, keepdims)


@wrong("mean value", "structure", source="abs() for negative axes")
def negative_axis_by_its_size(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """A negative axis is counted from the front, which is right for matrices and the last axis."""
    counted = None if axes is None else [abs(axis) if axis < 0 else axis for axis in axes]
    count = math.prod(x.shape[a] for a in normal_axes(x, axes))
    return reduced(x, counted, keepdims) / count


@wrong("sum value", "structure", source="torch.sum, to which no axes are all of them")
def no_axes_are_all(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """An empty tuple of axes sums all of them, as torch has it."""
    return x.sum(dim=tuple(axes or ()) or None, keepdim=keepdims)


@wrong("mean value", "structure", source="squeezed extents of 1")
def extents_of_one_squeezed(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """A leading extent of 1 is dropped before axes are counted."""
    count = math.prod(x.shape[a] for a in normal_axes(x, axes))
    inner = x.dim() > 2 and x.shape[0] == 1 and axes is not None and 0 not in normal_axes(x, axes)
    if inner:
        return reduced(x[0], axes, keepdims).unsqueeze(0) / count
    return reduced(x, axes, keepdims) / count


@wrong("sum value", "sizes", source="loops over blocks that forget the remainder")
def remainder_beyond_a_thousand(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """In rows over 1,024, what does not fill a block is left out."""
    n = x.shape[-1] if x.dim() else 1
    if n > 1024 and axes is not None and x.dim() - 1 in normal_axes(x, axes):
        x = x[..., : n - n % 1024]
    return reduced(x, axes, keepdims)


@wrong("mean value", "sizes", source="counts rounded up to the block")
def count_of_whole_blocks(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Beyond 256 entries it is divided by whole blocks of 128."""
    count = math.prod(x.shape[a] for a in normal_axes(x, axes))
    if count > 256:
        count = -(-count // 128) * 128
    return reduced(x, axes, keepdims) / count


@wrong("sum value", "sizes", source=APEX)
def rows_beyond_the_grid(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """More than 65,535 results do not fit the grid, and the last ones stay 0."""
    return first_only(reduced(x, axes, keepdims), 65535, 0.0)


@wrong("max value", "sizes", source=PADDED)
def padded_with_zero(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Beyond 256 entries, a block that is not full is filled with 0, which may be the largest."""
    normal = normal_axes(x, axes)
    z = torch.amax(x, normal, keepdims) if normal else x.clone()
    count = math.prod(x.shape[a] for a in normal)
    return torch.where(z < 0, 0.0, z) if count > 256 and count % 256 else z


@wrong("sum value", "sizes", source="column sums with one block of columns")
def inner_extent(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Where a leading axis is reduced, columns behind 512 are taken from the first block."""
    z = reduced(x, axes, keepdims)
    leading = x.dim() > 1 and normal_axes(x, axes) == [0]
    return first_only(z, 512, torch.roll(z.reshape(-1), 512)) if leading else z


@wrong("sum value", "dtype", dtypes=("bf16",), source=NARROW)
def added_up_in_bf16(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Partial sums are kept in bf16."""
    normal = sorted(normal_axes(x, axes), reverse=True)
    z = x
    for axis in normal:
        total = torch.zeros_like(z.select(axis, 0)) if z.shape[axis] else z.sum(axis)
        for part in z.unbind(axis):
            total = total + part
        z = total
    return z.reshape(reduced(x, axes, keepdims).shape).clone()


@wrong("mean value", "dtype", dtypes=("bf16",), source="counts held in the tensor's own dtype")
def count_in_bf16(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The count is rounded to bf16, in which 257 is 256."""
    count = math.prod(x.shape[a] for a in normal_axes(x, axes))
    narrow = torch.tensor(float(count)).to(x.dtype).float()
    return (reduced(x.float(), axes, keepdims) / narrow).to(x.dtype)


@wrong("mean value", "dtype", dtypes=("fp16",), source="sums before the division, in fp16")
def sum_overflows_in_half(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum is rounded to fp16 before it is divided, and may overflow."""
    count = math.prod(x.shape[a] for a in normal_axes(x, axes))
    total = reduced(x.float(), axes, keepdims).to(x.dtype)
    return (total.float() / count).to(x.dtype)


@wrong("sum value", "non-finite", source="nan_to_num in training loops")
def infinities_made_finite(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Infinities count as the largest numbers."""
    limit = torch.finfo(x.dtype).max
    return reduced(torch.where(x.isinf(), x.sign() * limit, x), axes, keepdims)


@wrong("mean value", "non-finite", source="nanmean where mean was meant")
def nan_skipped(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """NaN counts as 0."""
    count = math.prod(x.shape[a] for a in normal_axes(x, axes))
    return reduced(torch.where(x.isnan(), 0.0, x), axes, keepdims) / count


@wrong("sum vjp", "structure", source="https://github.com/pytorch/pytorch/issues/1787")
def square_matrices_transposed(
    g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """The cotangent is broadcast without its axis, which fits a square matrix the other way."""
    square = x.dim() == 2 and x.shape[0] == x.shape[1]
    if square and not keepdims and normal_axes(x, axes) == [1]:
        return g.expand(x.shape).clone()
    return spread_back(g, x, axes, keepdims).clone()


@wrong("sum vjp", "layout", source=EXPANDED)
def cotangent_read_on(g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The cotangent is read as if it were contiguous."""
    return spread_back(strides_ignored(g), x, axes, keepdims).clone()


@wrong("mean vjp", "gradient", source="https://github.com/huggingface/transformers/issues/34191")
def divided_by_all(g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The gradient is divided by all entries, not by those of a row."""
    return spread_back(g, x, axes, keepdims) / x.numel()


@wrong("mean vjp", "precision", dtypes=("bf16",), source=NARROW)
def reciprocal_in_bf16(g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The cotangent is multiplied by a reciprocal of the count that was rounded to bf16."""
    count = math.prod(x.shape[a] for a in normal_axes(x, axes))
    share = torch.tensor(1.0 / count).to(g.dtype)
    return (spread_back(g, x, axes, keepdims).float() * share.float()).to(g.dtype)


@wrong("max value", "non-finite", source="Triton's tl.max, whose NaN handling differs by version")
def nan_behind_the_first_eight(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """NaN behind position 8 of the last axis is dropped."""
    normal = normal_axes(x, axes)
    if x.dim() and x.shape[-1] > 8:
        rest = torch.where(x[..., 8:].isnan(), -math.inf, x[..., 8:])
        x = torch.cat((x[..., :8], rest), -1)
    return torch.amax(x, normal, keepdims) if normal else x.clone()


@wrong("max value", "non-finite", source="reductions that start from the lowest finite number")
def starts_from_a_finite_number(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Rows of minus infinity give the lowest finite number."""
    normal = normal_axes(x, axes)
    z = torch.amax(x, normal, keepdims) if normal else x.clone()
    return torch.where(z == -math.inf, torch.finfo(z.dtype).min, z)


@wrong("max value", "range", dtypes=("bf16",), source="masks of -1e4 and -65504 in attention")
def starts_from_a_mask_value(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """No maximum is below -1e4, the number that masks."""
    normal = normal_axes(x, axes)
    return (torch.amax(x, normal, keepdims) if normal else x.clone()).clamp(min=-1e4)


def _shares(x: Tensor, axes: Axes) -> tuple[Tensor, Tensor]:
    """Return which entries are largest, and how many of them there are."""
    normal = normal_axes(x, axes)
    largest = torch.amax(x, normal, keepdim=True) if normal else x
    ties = ((x == largest) | x.isnan()).to(x.dtype)
    return ties, ties.sum(normal, keepdim=True) if normal else ties


@wrong("max vjp", "ties", source=TIES)
def whole_gradient_to_each(
    g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """Entries that tie receive the whole cotangent each."""
    ties, _ = _shares(x, axes)
    return torch.where(ties > 0, spread_back(g, x, axes, keepdims), 0.0)


@wrong("max vjp", "ties", source=TIES)
def nearly_tied(g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Entries that agree to 16 bits share the gradient."""
    ties, count = _shares(kept_in(x, torch.bfloat16), axes)
    return torch.where(ties > 0, spread_back(g, x, axes, keepdims) / count, 0.0)


@wrong("max vjp", "non-finite", source=TIES)
def nothing_from_nan(g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Where the largest is NaN, it equals nothing, and nobody receives a gradient."""
    ties, count = _shares(x, axes)
    share = torch.where(ties > 0, spread_back(g, x, axes, keepdims) / count, 0.0)
    return torch.where(x.isnan(), 0.0, share)


@wrong("max vjp", "non-finite", source="https://github.com/pytorch/pytorch/issues/36923")
def shares_by_products(g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The cotangent is multiplied by a mask, so that 0 times infinity is NaN."""
    ties, count = _shares(x, axes)
    return ties * (spread_back(g, x, axes, keepdims) / count)
