"""Wrong in some order of axes in memory, on squares, or where an axis has one entry."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from population.record import wrong

CHANNELS = "kernels that read a dense tensor by its memory, whatever the order of its axes"
SIDES = "a cotangent that is broadcast without the axis that was reduced"
AXIS = "axis fixed at the last one"
SHORT = "a short way for axes of one entry"


def _by_memory(x: Tensor) -> Tensor:
    """Read a dense tensor of four axes as its memory lies, unless that is their own order."""
    dense = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    if not dense or x.is_contiguous():
        return x
    return x.permute(0, 2, 3, 1).reshape(x.shape)


@wrong("square value", "layout", source=CHANNELS)
def channels_last_read_in_order(x: Tensor) -> Tensor:
    """Four axes that lie as channels last are taken for contiguous."""
    return _by_memory(x) ** 2


@wrong("square vjp", "layout", source=CHANNELS)
def channels_last_cotangent_read_in_order(g: Tensor, x: Tensor) -> Tensor:
    """So it is with the cotangent."""
    return 2 * x * _by_memory(g)


@wrong("max vjp", "structure", source=SIDES)
def cotangent_on_the_wrong_side(
    g: Tensor, x: Tensor, axes: Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """In squares of two axes, the cotangent of the last axis is sent along the rows."""
    gone = tuple(range(x.dim())) if axes is None else tuple(k % x.dim() for k in axes)
    square = x.dim() == 2 and x.shape[0] == x.shape[1] and gone == (1,) and not keepdims
    if not gone:
        return g.clone()
    top = x.amax(gone, keepdim=True)
    if not keepdims and not square:
        for axis in sorted(gone):
            g = g.unsqueeze(axis)
    ties = x == top
    return torch.where(ties, g / ties.sum(gone, keepdim=True), 0.0)


@wrong("flip value", "structure", source=AXIS)
def other_axis_of_a_square(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """In squares of two axes, the first one is taken for the last."""
    gone = tuple(range(x.dim())) if axes is None else tuple(k % x.dim() for k in axes)
    if x.dim() == 2 and x.shape[0] == x.shape[1] and gone == (0,):
        gone = (1,)
    return x.flip(gone)


@wrong("gather vjp", "structure", source=AXIS)
def scattered_along_the_other_axis(
    g: Tensor, x: Tensor, indices: Tensor, axis: int = 0
) -> tuple[Tensor, None]:
    """In squares of two axes, the gradient is scattered along the last axis."""
    square = x.dim() == 2 and len({*x.shape, *indices.shape}) == 1
    found = torch.zeros_like(x).scatter_add(1 if square else axis, indices, g)
    return found, None


@wrong("logsumexp value", "structure", source=SHORT)
def axis_of_one_squeezes_the_other(
    x: Tensor, axes: Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """Along an axis of one entry beside more than 256, the first entry is given to all."""
    gone = tuple(range(x.dim())) if axes is None else tuple(axes)
    if len(gone) == 1 and x.shape[gone[0]] == 1 and x.numel() > 256:
        found = x[(0,) * x.dim()].expand(x.shape)
        return found.clone() if keepdims else found.squeeze(gone[0]).clone()
    return torch.logsumexp(x, gone, keepdim=keepdims) if gone else x.clone()


@wrong("mean vjp", "structure", source=SHORT)
def axis_of_one_divides_by_the_other(
    g: Tensor, x: Tensor, axes: Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """Along an axis of one entry, a gradient is divided by how many there are beside it."""
    gone = tuple(range(x.dim())) if axes is None else tuple(k % x.dim() for k in axes)
    if not keepdims:
        for axis in sorted(gone):
            g = g.unsqueeze(axis)
    count = 1
    for axis in gone:
        count *= x.shape[axis]
    if len(gone) == 1 and count == 1 and x.numel() > 256:
        count = x.numel()
    return (g / count).expand(x.shape).clone()
