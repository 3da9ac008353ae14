"""Right moves and draws: the same entries by other ways."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor
from torch.nn import functional

from fast.kernels.elementwise.random import aten_leading, bound_of
from population.record import right

HOST = torch.device("cpu")
Shape = tuple[int, ...]


@right("broadcast_to", "structure")
def by_adding_zeros(x: Tensor, shape: Shape) -> Tensor:
    """The entries are copied into a tensor of the shape."""
    return x.expand(shape).contiguous().clone()


@right("broadcast_to vjp", "precision")
def copies_added_in_double(g: Tensor, x: Tensor, shape: Shape) -> Tensor:
    """The copies' cotangents are added up in double."""
    return g.double().sum_to_size(x.shape).to(x.dtype) if x.dim() else g.double().sum().to(x.dtype)


@right("reshape", "structure")
def by_one_axis(x: Tensor, shape: Shape) -> Tensor:
    """All entries are laid in one row first."""
    return x.flatten().clone().view(shape)


@right("permute", "structure")
def by_exchanging_pairs(x: Tensor, axes: Shape) -> Tensor:
    """Two axes are exchanged at a time."""
    order = list(range(x.dim()))
    for at, axis in enumerate(axes):
        found = order.index(axis % x.dim())
        order[at], order[found] = order[found], order[at]
        x = x.transpose(at, found)
    return x.clone()


@right("slice", "structure")
def by_indices(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """The entries are selected one by one."""
    return torch.index_select(x, axis, torch.arange(start, start + length))


@right("slice vjp", "gradient")
def padded_with_zeros(g: Tensor, x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """The cotangent is padded on both sides."""
    at = axis % x.dim()
    after = x.shape[at] - start - length
    return functional.pad(g, [0, 0] * (x.dim() - 1 - at) + [start, after])


@right("concat", "structure")
def copied_piece_by_piece(*xs: Tensor, axis: int) -> Tensor:
    """Each input is copied into its place."""
    at = axis % xs[0].dim()
    shape = [*xs[0].shape]
    shape[at] = sum(x.shape[at] for x in xs)
    z, start = torch.zeros(shape, dtype=xs[0].dtype), 0
    for x in xs:
        z = z.slice_scatter(x, at, start, start + x.shape[at])
        start += x.shape[at]
    return z


@right("dropout", "random")
def zeros_filled_in(x: Tensor, p: float, seed: int, counter: int, training: bool = True) -> Tensor:
    """What was dropped is filled with zeros after all was scaled."""
    if not training:
        return x.clone()
    kept = Fraction(1) - Fraction(p)
    drawn = aten_leading(seed, counter, x.numel(), HOST).view(x.shape) < bound_of(kept)
    scale = torch.tensor(float(1 / kept) if kept else 0.0, dtype=x.dtype)
    return (x * scale).masked_fill(~drawn, 0.0)


@right("rand_normal value", "random")
def normal_in_double(shape: Shape, seed: int, counter: int, dtype: torch.dtype) -> Tensor:
    """The numbers are formed in double, with log1p, and rounded once."""
    count = math.prod(shape)
    drawn = aten_leading(seed, counter, count + count % 2, HOST).double() * 2.0**-24
    u, v = drawn[0::2], drawn[1::2]
    radius, angle = torch.sqrt(-2 * torch.log1p(-u)), 2 * math.pi * v
    both = torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), 1)
    return both.reshape(-1)[:count].reshape(shape).to(dtype)


@right("rand_uniform value", "random")
def by_division(shape: Shape, seed: int, counter: int, dtype: torch.dtype) -> Tensor:
    """The words are divided by a power of two in double."""
    drawn = aten_leading(seed, counter, math.prod(shape), HOST)
    return (drawn.double() / 2**24).reshape(shape).to(dtype)
