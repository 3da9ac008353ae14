"""Wrong operations that turn, join, pad and cut: flatten, flip, stack, pad, triu and tril."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from population.pieces.tensors import strides_ignored
from population.record import wrong

Shape = tuple[int, ...]

BAND = "https://github.com/apple/coremltools/pull/2771"
MULTIPLIED = "https://github.com/tenstorrent/tt-metal/issues/52038"
OFFSET = "https://github.com/pytorch/pytorch/issues/15226"
BATCHED = "https://github.com/pytorch/pytorch/issues/22581"
STACKED = "https://github.com/pytorch/pytorch/issues/1950"
PADDED = "https://github.com/apache/mxnet/issues/19043"
MEMORY = "https://github.com/triton-inference-server/server/pull/773"


def _flat(x: Tensor, start: int, end: int) -> Shape:
    return tuple(torch.flatten(torch.empty(x.shape, device="meta"), start, end).shape)


@wrong("flatten value", "layout", source=MEMORY)
def entries_in_memory_order(x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    """The input is read in the order of its memory."""
    return strides_ignored(x).reshape(_flat(x, start, end))


@wrong("flatten", "structure", source="columns before rows, as Fortran and Julia have it")
def last_two_axes_exchanged(x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    """Where the last of three axes or more is flattened, it is read before the one in front."""
    turned = x.dim() > 2 and end % x.dim() == x.dim() - 1 and start % x.dim() < x.dim() - 1
    return (x.transpose(-1, -2) if turned else x).reshape(_flat(x, start, end))


def _named(x: Tensor, axes: Shape | None) -> list[int]:
    return sorted(axis % x.dim() for axis in (range(x.dim()) if axes is None else axes))


@wrong("flip value", "structure", source="https://github.com/pytorch/pytorch/issues/13292")
def first_axis_alone(x: Tensor, axes: Shape | None = None) -> Tensor:
    """Of several axes that do not follow each other, the first is reversed."""
    named = _named(x, axes)
    apart = len(named) > 1 and named[-1] - named[0] >= len(named)
    return torch.flip(x, named[:1] if apart else named)


@wrong("flip value", "layout", source="https://github.com/torch/image/issues/61")
def as_if_it_were_contiguous(x: Tensor, axes: Shape | None = None) -> Tensor:
    """The input is read as if it were contiguous."""
    return torch.flip(strides_ignored(x), _named(x, axes))


@wrong("flip vjp", "gradient", source="reversals taken for copies")
def cotangent_as_it_came(g: Tensor, x: Tensor, axes: Shape | None = None) -> Tensor:
    """The cotangent is handed on without being reversed."""
    return g.clone()


@wrong("stack value", "structure", source=STACKED)
def negative_axes_of_the_inputs(*xs: Tensor, axis: int) -> Tensor:
    """A negative axis counts the axes of the inputs, where the result has one more."""
    wrapped = axis + xs[0].dim() if axis < 0 else axis
    z = torch.stack(xs, axis)
    found = torch.stack(xs, max(wrapped, 0))
    return found if found.shape == z.shape else z


@wrong("stack", "structure", source="https://github.com/pytorch/glow/pull/5418")
def joined_and_reshaped(*xs: Tensor, axis: int) -> Tensor:
    """Along a new last axis, inputs are joined one behind the other, and laid out anew."""
    z = torch.stack(xs, axis)
    if axis % z.dim() < z.dim() - 1 or not xs[0].dim():
        return z
    return torch.cat(xs, -1).reshape(z.shape)


@wrong("stack vjp", "gradient", source="gradients of a list that are those of its first entry")
def first_part_for_all(g: Tensor, *xs: Tensor, axis: int) -> tuple[Tensor, ...]:
    """Every input receives the part of the first."""
    return tuple(g.select(axis, 0).clone() for _ in xs)


def _padded(x: Tensor, before: Shape, after: Shape, value: float) -> Tensor:
    widths = [n for pair in zip(before[::-1], after[::-1], strict=True) for n in pair]
    return functional.pad(x, widths, value=value)


def _inner(g: Tensor, starts: Shape, shape: Shape) -> Tensor:
    for axis, (start, extent) in enumerate(zip(starts, shape, strict=True)):
        g = g.narrow(axis, start, extent)
    return g.clone()


@wrong("pad value", "structure", source="widths that are listed from the last axis on")
def widths_of_the_other_end(x: Tensor, before: Shape, after: Shape, value: float = 0.0) -> Tensor:
    """What should come before comes after."""
    return _padded(x, after, before, value)


@wrong("pad vjp", "gradient", source=PADDED)
def padding_receives_ones(
    g: Tensor, x: Tensor, before: Shape, after: Shape, value: float = 0.0
) -> Tensor:
    """The gradient of every entry is one, whatever the cotangent."""
    return torch.ones(x.shape, dtype=x.dtype)


@wrong("pad vjp", "structure", source="paddings that are tested where both sides are alike")
def cut_from_the_other_end(
    g: Tensor, x: Tensor, before: Shape, after: Shape, value: float = 0.0
) -> Tensor:
    """The cotangent is cut as many places in as there are after, where before is meant."""
    return _inner(g, after, x.shape)


@wrong("pad value", "dtype", dtypes=("fp64",), source="values that pass through a kernel's float")
def value_in_fp32(x: Tensor, before: Shape, after: Shape, value: float = 0.0) -> Tensor:
    """The value is rounded to float32."""
    return _padded(x, before, after, float(torch.tensor(value, dtype=torch.float32)))


def _offsets(x: Tensor) -> Tensor:
    return torch.arange(x.shape[-1]) - torch.arange(x.shape[-2])[:, None]


@wrong("triu value", "non-finite", source=BAND)
def subtracted_from_itself(x: Tensor, diagonal: int = 0) -> Tensor:
    """What is not kept is subtracted from itself, where infinity leaves NaN."""
    return x - torch.tril(x, diagonal - 1) if diagonal > 0 else torch.triu(x, diagonal)


@wrong("triu", "structure", source=OFFSET)
def diagonal_of_long_columns(x: Tensor, diagonal: int = 0) -> Tensor:
    """Where there are more rows than columns, the diagonal is taken from the other side."""
    turned = x.shape[-2] > x.shape[-1]
    return torch.triu(x, -diagonal if turned else diagonal)


@wrong("triu value", "sizes", source="https://github.com/pytorch/pytorch/issues/136611")
def rows_from_a_place_on(x: Tensor, diagonal: int = 0) -> Tensor:
    """Rows behind the first 64 are left as they are."""
    z = torch.triu(x, diagonal).clone()
    z[..., 64:, :] = x[..., 64:, :]
    return z


@wrong("tril value", "non-finite", source=MULTIPLIED)
def by_ones_and_zeros(x: Tensor, diagonal: int = 0) -> Tensor:
    """What is not kept is multiplied by 0, where 0 times infinity is NaN."""
    return x * (_offsets(x) <= diagonal).to(x.dtype)


@wrong("tril value", "layout", source=BATCHED)
def batches_in_memory_order(x: Tensor, diagonal: int = 0) -> Tensor:
    """Behind more than one leading axis, matrices are read as if they were contiguous."""
    return torch.tril(strides_ignored(x) if x.dim() > 3 else x, diagonal)


@wrong("tril vjp", "gradient", source="masks that are applied to values alone")
def nothing_is_masked(g: Tensor, x: Tensor, diagonal: int = 0) -> Tensor:
    """What was not kept receives its cotangent all the same."""
    return g.clone()
