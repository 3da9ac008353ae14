"""Right ones that go other ways through long rows, orders of axes, short axes and calls before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.torch.backend import OPS
from population.pieces.tensors import on_matrices
from population.record import right
from spec.ops.chain import read


@right("softmax value", "non-finite", source="Milakov and Gimelshein, 2018")
def online_in_long_blocks(x: Tensor, axis: int = -1) -> Tensor:
    """Maximum and sum are found in one pass over blocks of 256."""
    y = x.movedim(axis, -1)
    top = torch.full(y.shape[:-1], -math.inf, dtype=x.dtype)
    total = torch.zeros(y.shape[:-1], dtype=x.dtype)
    for start in range(0, y.shape[-1], 256):
        block = y[..., start : start + 256]
        higher = torch.maximum(top, block.amax(-1))
        safe = torch.where(higher == -math.inf, 0.0, higher)
        total = total * torch.exp(top - safe) + torch.exp(block - safe[..., None]).sum(-1)
        top = higher
    return (torch.exp(y - top[..., None]) / total[..., None]).movedim(-1, axis)


@right("max value", "non-finite")
def maximum_of_block_maxima(
    x: Tensor, axes: Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """Along one axis, the largest of each block of 256 is found first."""
    gone = tuple(range(x.dim())) if axes is None else tuple(axes)
    if len(gone) != 1:
        return x.amax(gone, keepdim=keepdims) if gone else x.clone()
    length = x.shape[gone[0]]
    parts = (x.narrow(gone[0], k, min(256, length - k)) for k in range(0, length, 256))
    blocks = [part.amax(gone, keepdim=True) for part in parts]
    return torch.cat(blocks, gone[0]).amax(gone, keepdim=keepdims)


@right("square value", "layout")
def in_the_order_of_memory(x: Tensor) -> Tensor:
    """The result lies in memory as the input does."""
    return torch.empty_like(x, memory_format=torch.preserve_format).copy_(x).square_()


@right("logsumexp value", "structure")
def short_way_for_one_entry(
    x: Tensor, axes: Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """Along axes of one entry, the result is the input."""
    gone = tuple(range(x.dim())) if axes is None else tuple(k % x.dim() for k in axes)
    if all(x.shape[k] == 1 for k in gone):
        stay = [n for k, n in enumerate(x.shape) if k not in gone]
        return x.clone() if keepdims else x.reshape(stay).clone()
    return torch.logsumexp(x, gone, keepdim=keepdims)


@right("max vjp", "structure")
def share_by_a_mask_of_ties(
    g: Tensor, x: Tensor, axes: Sequence[int] | None = None, keepdims: bool = False
) -> Tensor:
    """Ties share the cotangent, whose reduced axes are put back by a view."""
    gone = tuple(range(x.dim())) if axes is None else tuple(k % x.dim() for k in axes)
    kept = [1 if k in gone else n for k, n in enumerate(x.shape)]
    if not gone:
        return g.clone()
    top = x.amax(gone, keepdim=True)
    ties = (x == top) | (x.isnan() & top.isnan())
    return torch.where(ties, g.reshape(kept) / ties.sum(gone, keepdim=True), 0.0)


@right("linear value", "sizes")
@on_matrices
def by_tiles_with_a_tail(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The contracted axis is taken in tiles of 16, the last one shorter."""
    found = torch.zeros(x.shape[0], w.shape[0], dtype=x.dtype)
    for start in range(0, x.shape[1], 16):
        found = found + x[:, start : start + 16] @ w[:, start : start + 16].t()
    return found + b


@right("chain value", "lifetime")
class kept_by_all_that_matters:
    """A chain is kept by its steps with their attributes."""

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}

    def __call__(self, x: Tensor, steps: Sequence[Any]) -> Tensor:
        for name, attributes in self.known.setdefault(repr(steps), read(steps)):
            x = OPS[name](x, **attributes)
        return x
