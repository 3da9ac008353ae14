"""Right operations that turn, join, pad and cut: the same entries by other ways."""

from __future__ import annotations

import torch
from torch import Tensor

from population.record import right

Shape = tuple[int, ...]


@right("flatten", "structure")
def axis_by_axis(x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    """Two axes are made one at a time."""
    rank = max(x.dim(), 1)
    z = x.clone() if x.dim() else x.reshape(1)
    for _ in range(end % rank - start % rank):
        at = start % rank
        z = z.reshape((*z.shape[:at], z.shape[at] * z.shape[at + 1], *z.shape[at + 2 :]))
    return z


@right("flip", "structure")
def read_at_indices_from_the_end(x: Tensor, axes: Shape | None = None) -> Tensor:
    """Each axis is read at places that count down."""
    for axis in range(x.dim()) if axes is None else axes:
        x = torch.index_select(x, axis, torch.arange(x.shape[axis] - 1, -1, -1))
    return x.clone()


@right("stack", "structure")
def written_place_by_place(*xs: Tensor, axis: int) -> Tensor:
    """Each input is written to its place."""
    at = axis % (xs[0].dim() + 1)
    z = torch.zeros((*xs[0].shape[:at], len(xs), *xs[0].shape[at:]), dtype=xs[0].dtype)
    for k, x in enumerate(xs):
        z = z.select_scatter(x, at, k)
    return z


@right("pad value", "structure")
def written_into_the_value(x: Tensor, before: Shape, after: Shape, value: float = 0.0) -> Tensor:
    """The input is written into a tensor full of the value."""
    shape = [b + n + a for b, n, a in zip(before, x.shape, after, strict=True)]
    z = torch.full(shape, value, dtype=x.dtype)
    inner = z
    for axis, (start, extent) in enumerate(zip(before, x.shape, strict=True)):
        inner = inner.narrow(axis, start, extent)
    inner.copy_(x)
    return z


@right("pad vjp", "gradient")
def read_at_places(g: Tensor, x: Tensor, before: Shape, after: Shape, value: float = 0.0) -> Tensor:
    """The cotangent is read at the places of the input, axis by axis."""
    for axis, (start, extent) in enumerate(zip(before, x.shape, strict=True)):
        g = torch.index_select(g, axis, torch.arange(start, start + extent))
    return g.clone()


def _offsets(x: Tensor) -> Tensor:
    return torch.arange(x.shape[-1]) - torch.arange(x.shape[-2])[:, None]


@right("triu", "structure")
def filled_below(x: Tensor, diagonal: int = 0) -> Tensor:
    """What lies below is filled with zeros."""
    return x.masked_fill(_offsets(x) < diagonal, 0.0)


@right("tril", "structure")
def upper_of_the_transpose(x: Tensor, diagonal: int = 0) -> Tensor:
    """It is the upper triangle of the transposed matrices, transposed."""
    return torch.triu(x.transpose(-1, -2), -diagonal).transpose(-1, -2).clone()
