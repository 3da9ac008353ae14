"""Wrong operations that only move data: broadcast_to, reshape, permute, slice and concat."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.tensors import strides_ignored
from population.record import wrong

BROADCAST = "https://github.com/pytorch/pytorch/issues/1787"
DOUBLED = "https://github.com/pytorch/pytorch/issues/13669"
SCATTERED = "https://github.com/pytorch/pytorch/issues/180164"
JUNK = "https://github.com/Dao-AILab/flash-attention/issues/2421"
VIEWS = "https://github.com/huggingface/candle/issues/3735"
NARROW = "https://github.com/linkedin/Liger-Kernel/issues/950"
Shape = tuple[int, ...]


def _summed(g: Tensor, x: Tensor) -> Tensor:
    """Sum a cotangent over the axes along which x was repeated."""
    return g.sum_to_size(x.shape) if x.dim() else g.sum()


@wrong("broadcast_to vjp", "gradient", source=BROADCAST)
def first_copy_alone(g: Tensor, x: Tensor, shape: Shape) -> Tensor:
    """An axis that was repeated inside receives the cotangent of its first copy."""
    extra = g.dim() - x.dim()
    g = g.sum(tuple(range(extra))) if extra else g
    for axis, extent in enumerate(x.shape):
        if extent == 1 and axis > 0:
            g = g.narrow(axis, 0, 1)
    return _summed(g, x)


@wrong("broadcast_to vjp", "gradient", source=DOUBLED)
def averaged_over_copies(g: Tensor, x: Tensor, shape: Shape) -> Tensor:
    """The copies' cotangents are averaged."""
    return _summed(g, x) * (x.numel() / max(g.numel(), 1))


@wrong("broadcast_to vjp", "dtype", dtypes=("bf16",), source=NARROW)
def copies_added_in_bf16(g: Tensor, x: Tensor, shape: Shape) -> Tensor:
    """The copies' cotangents are added up in bf16, one by one."""
    total = torch.zeros(x.shape, dtype=x.dtype).expand(g.shape[g.dim() - x.dim() :])
    lead = g.reshape(-1, *g.shape[g.dim() - x.dim() :]) if g.dim() > x.dim() else g[None]
    for part in lead:
        total = total + part
    for axis, extent in enumerate(x.shape):
        if extent == 1:
            found = torch.zeros_like(total.narrow(axis, 0, 1))
            for k in range(total.shape[axis]):
                found = found + total.narrow(axis, k, 1)
            total = found
    return total.reshape(x.shape).clone()


@wrong("reshape value", "layout", source=VIEWS)
def strides_of_the_input(x: Tensor, shape: Shape) -> Tensor:
    """The input is read in the order of its memory."""
    return strides_ignored(x).reshape(shape)


@wrong("reshape vjp", "layout", source="https://github.com/Dao-AILab/flash-attention/issues/355")
def strides_of_the_cotangent(g: Tensor, x: Tensor, shape: Shape) -> Tensor:
    """The cotangent is read in the order of its memory."""
    return strides_ignored(g).reshape(x.shape)


@wrong("permute value", "structure", source="permutations that are their own inverses in tests")
def inverse_permutation(x: Tensor, axes: Shape) -> Tensor:
    """Axes go where they should come from."""
    inverse = sorted(range(x.dim()), key=lambda k: axes[k] % x.dim())
    return x.permute(inverse).clone() if x.dim() else x.clone()


@wrong("permute vjp", "structure", source="permutations that are their own inverses in tests")
def same_permutation_back(g: Tensor, x: Tensor, axes: Shape) -> Tensor:
    """The cotangent is permuted once more, where the inverse is due."""
    return g.permute(axes).clone() if x.dim() else g.clone()


@wrong("permute vjp", "structure", source="argsort of axes that may be negative")
def negative_axes_sorted_first(g: Tensor, x: Tensor, axes: Shape) -> Tensor:
    """The inverse is found by sorting the axes as they are given, the negative ones first."""
    inverse = sorted(range(x.dim()), key=lambda k: axes[k])
    return g.permute(inverse).clone() if x.dim() else g.clone()


@wrong("permute value", "sizes", source="transposing tiles with a remainder")
def last_tile_left_out(x: Tensor, axes: Shape) -> Tensor:
    """Of matrices over 64 rows, rows that do not fill a tile of 32 are 0."""
    z = x.permute(axes).clone() if x.dim() else x.clone()
    if z.dim() == 2 and z.shape[0] > 64:
        z[z.shape[0] - z.shape[0] % 32 :] = 0
    return z


@wrong("permute value", "structure", source="kernels with a fixed number of strides")
def four_axes_at_most(x: Tensor, axes: Shape) -> Tensor:
    """Of five axes or more, the last two stay where they are if their extents agree."""
    z = x.permute(axes).clone() if x.dim() else x.clone()
    same = z.dim() > 4 and z.shape[-1] == z.shape[-2]
    return z.transpose(-1, -2).clone() if same else z


@wrong("slice vjp", "empty", source=JUNK)
def rest_not_written(g: Tensor, x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """What was not sliced is left as it was allocated."""
    dx = torch.empty(x.shape, dtype=x.dtype)
    dx.narrow(axis, start, length).copy_(g)
    return dx


@wrong("slice vjp", "structure", source=SCATTERED)
def from_the_start(g: Tensor, x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """Along a negative axis, the cotangent is put at the start."""
    dx = torch.zeros(x.shape, dtype=x.dtype)
    dx.narrow(axis, start if axis >= 0 else 0, length).copy_(g)
    return dx


@wrong("slice value", "sizes", source="offsets kept in 8 bits")
def start_of_8_bits(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """The start wraps at 128."""
    return x.narrow(axis, start % 128, length).clone()


@wrong("slice value", "layout", source=VIEWS)
def start_in_elements(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """The start of a slice counts elements of memory, whatever the stride is."""
    if x.dim() == 1 and x.stride(0) > 1:
        return strides_ignored(x)[start : start + length].clone()
    return x.narrow(axis, start, length).clone()


@wrong("concat vjp", "gradient", source="chunk where split was meant")
def equal_parts(g: Tensor, *xs: Tensor, axis: int) -> tuple[Tensor, ...]:
    """The cotangent is cut into parts of the first input's extent."""
    extent, found = xs[0].shape[axis], []
    for k, x in enumerate(xs):
        start = min(k * extent, g.shape[axis] - x.shape[axis])
        found.append(g.narrow(axis, start, x.shape[axis]).clone())
    return tuple(found)


@wrong("concat value", "structure", source="kernels written for at most four inputs")
def fifth_input(*xs: Tensor, axis: int) -> Tensor:
    """The fifth input is the fourth once more, where it has its shape."""
    given = list(xs)
    if len(given) > 4 and given[4].shape == given[3].shape:
        given[4] = given[3]
    return torch.cat(given, axis)


@wrong("concat value", "structure", source="kernels written for rank 4")
def rank_five(*xs: Tensor, axis: int) -> Tensor:
    """In rank 5 and more, inputs of one shape are joined in the other order."""
    other = xs[0].dim() > 4 and len({x.shape for x in xs}) == 1
    return torch.cat(xs[::-1] if other else xs, axis)


@wrong("concat vjp", "aliasing", source="gradients keyed by tensor, not by position")
def same_tensor_twice(g: Tensor, *xs: Tensor, axis: int) -> tuple[Tensor, ...]:
    """An input that is given twice receives both parts at its first place."""
    parts, start = [], 0
    for x in xs:
        parts.append(g.narrow(axis, start, x.shape[axis]).clone())
        start += x.shape[axis]
    for k, x in enumerate(xs):
        for j in range(k):
            if x.data_ptr() == xs[j].data_ptr() and x.shape == xs[j].shape and x.numel():
                parts[j], parts[k] = parts[j] + parts[k], torch.zeros_like(parts[k])
                break
    return tuple(parts)


@wrong("concat value", "empty", source="https://github.com/pytorch/pytorch/issues/31782")
def empty_inputs_end_it(*xs: Tensor, axis: int) -> Tensor:
    """What comes after an input without elements is zero."""
    z = torch.cat(xs, axis).clone()
    start = 0
    for x in xs:
        if x.shape[axis] == 0:
            z.narrow(axis, start, z.shape[axis] - start).zero_()
            break
        start += x.shape[axis]
    return z
