"""Wrong in the tail of a contracted axis, or beyond tiles of both axes of a result."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.tensors import on_matrices
from population.record import wrong

TAIL = "matmul tutorials without a mask on K"
BOTH = "a grid of tiles whose number is computed from one axis"


@wrong("matmul value", "sizes", dtypes=("bf16",), source=TAIL)
def last_tile_of_sixteen_dropped(x: Tensor, y: Tensor) -> Tensor:
    """What is left of the contracted axis behind full tiles of 16 is dropped."""
    inner = x.shape[1]
    kept = inner // 16 * 16 if inner > 16 else inner
    return x[:, :kept] @ y[:kept]


@wrong("linear value", "sizes", source=TAIL)
@on_matrices
def last_tile_of_sixty_four_dropped(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """What is left of the contracted axis behind full tiles of 64 is dropped."""
    inner = x.shape[-1]
    kept = inner // 64 * 64 if inner > 64 else inner
    return x[..., :kept] @ w[:, :kept].t() + b


@wrong("matmul value", "sizes", source=BOTH)
def last_tile_of_both_axes(x: Tensor, y: Tensor) -> Tensor:
    """Beyond 64 rows and 64 columns, the last tile is that of the rows before."""
    found = x @ y
    if min(found.shape) > 64:
        found[64:, 64:] = found[:-64, 64:]
    return found


@wrong("matmul vjp", "sizes", source=BOTH)
def gradient_of_the_second_tile(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """A gradient beyond 256 rows and 256 columns is 0 there."""
    dx, dy = g @ y.t(), x.t() @ g
    dx[256:, 256:] = 0
    return dx, dy


@wrong("permute value", "sizes", source=BOTH)
def second_tile_is_not_turned(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Of two axes beyond 256, the last tile stays as it is."""
    found = x.permute(axes).contiguous()
    if x.dim() == 2 and min(x.shape) > 257 and tuple(k % 2 for k in axes) == (1, 0):
        side = min(x.shape) - 256
        found[256 : 256 + side, 256 : 256 + side] = x[256 : 256 + side, 256 : 256 + side]
    return found


@wrong("sum value", "sizes", source=BOTH)
def tail_of_many_rows_dropped(
    x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """Of more than 64 rows of 65 to 127 entries, what lies behind the first 64 is dropped."""
    if axes is not None and len(axes) == 1 and x.dim() == 2:
        rows = x.movedim(axes[0], -1)
        if len(rows) > 64 and 64 < rows.shape[1] < 128:
            return rows[:, :64].sum(-1, keepdim=keepdims).reshape(x.sum(axes, keepdims).shape)
    return torch.sum(x, axes, keepdim=keepdims)


@wrong("mean value", "sizes", source=BOTH)
def tail_of_narrow_rows_dropped(
    x: Tensor, axes: tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """Of more than 128 rows of 33 to 63 entries, the last block of 32 is dropped."""
    found = torch.mean(x, axes, keepdim=keepdims)
    if axes is not None and len(axes) == 1 and x.dim() == 2:
        rows = x.movedim(axes[0], -1)
        if len(rows) > 128 and 32 < rows.shape[1] < 64:
            return (rows[:, :32].sum(-1) / rows.shape[1]).reshape(found.shape)
    return found
