"""Right minima, norms, and logarithms of sums of exponentials, by other formulas."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from population.pieces.tensors import Axes, normal_axes, spread_back
from population.record import right


@right("min value", "value")
def largest_of_the_opposites(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The signs are changed, the largest is taken, and its sign changed back."""
    normal = normal_axes(x, axes)
    return -torch.amax(-x, normal, keepdims) if normal else x.clone()


@right("min vjp", "ties")
def smallest_share_alike(g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Each of the entries that tie receives the cotangent over their number."""
    normal = normal_axes(x, axes)
    least = torch.amin(x, normal, keepdim=True) if normal else x
    ties = (x == least) | x.isnan()
    count = ties.sum(normal, keepdim=True) if normal else ties.long()
    return torch.where(ties, spread_back(g, x, axes, keepdims) / count.to(x.dtype), 0.0)


@right("logsumexp value", "precision", source="Milakov and Gimelshein, 2018")
def sum_in_blocks_online(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum is found block by block, and scaled where a later block has a larger maximum."""
    normal = normal_axes(x, axes)
    kept = [a for a in range(x.dim()) if a not in normal]
    y = x.permute([*kept, *normal]).reshape(*(x.shape[a] for a in kept), -1)
    top = torch.full(y.shape[:-1], -math.inf, dtype=x.dtype)
    total = torch.zeros(y.shape[:-1], dtype=x.dtype)
    for block in torch.split(y, 16, -1):
        higher = torch.maximum(top, block.amax(-1))
        shift = torch.where(higher.isinf(), 0.0, higher)
        total = total * torch.exp(top - shift) + torch.exp(block - shift[..., None]).sum(-1)
        top = higher
    z = torch.log(total) + torch.where(top.isinf(), 0.0, top)
    shape = [1 if a in normal else n for a, n in enumerate(x.shape) if keepdims or a in kept]
    return z.reshape(shape)


@right("logsumexp vjp", "gradient", source="torch's FunctionsManual.cpp, logsumexp_backward")
def exponentials_below_the_result(
    g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """The cotangent is multiplied by e^(x - z), but for rows of minus infinity."""
    normal = normal_axes(x, axes)
    z = torch.logsumexp(x, normal, True) if normal else x
    back = torch.exp(x - z) * spread_back(g, x, axes, keepdims)
    return torch.where(z == -math.inf, 0.0, back)


@right("norm value", "precision")
def length_in_double(x: Tensor, ord: int = 2, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Squares are formed and added up in double."""
    normal = normal_axes(x, axes)
    parts = x.double().abs() if ord == 1 else x.double().square()
    total = parts.sum(normal, keepdim=keepdims) if normal else parts
    return (total if ord == 1 else total.sqrt()).to(x.dtype)


@right("norm vjp", "gradient")
def direction_by_the_cotangent(
    g: Tensor, x: Tensor, ord: int = 2, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """Each entry is divided by the norm, and multiplied by the cotangent."""
    normal = normal_axes(x, axes)
    back = spread_back(g, x, axes, keepdims)
    if ord == 1:
        return torch.where(x > 0, back, torch.where(x < 0, -back, 0.0))
    squares = x.double().square()
    z = (squares.sum(normal, keepdim=True) if normal else squares).sqrt().to(x.dtype)
    return torch.where(z == 0, 0.0, back * (x / z))
