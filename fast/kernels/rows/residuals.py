"""What ops share that normalize a sum with a residual: what is saved of it, and its cotangents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.kernels.page import Gradients

Pair = tuple[Tensor, Tensor]


def kept(x: Tensor, residual: Tensor, summed: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return what the sum is found from again: itself, or both terms where it has been rounded."""
    return (summed, None) if wide(summed) is summed else (x, residual)


def again(x: Tensor, residual: Tensor | None) -> Tensor:
    """Find the sum from what was kept, in the dtype of computation."""
    return wide(x) if residual is None else wide(x) + wide(residual)


def handed(z: Tensor, cotangent: Tensor | None) -> Tensor:
    """Return the cotangent of a result like z, or where none came a zero that is read as many."""
    if cotangent is not None:
        return cotangent
    return torch.zeros((), dtype=z.dtype, device=z.device).expand(z.shape)


def joined(dx: Tensor | None, h: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Add the cotangent of the sum to what came through the norm, and round once."""
    if dx is None:
        return None
    return (dx if h is None else dx + wide(h)).to(dtype)


def tile(meta: Mapping[str, Any], x: Tensor, h: Tensor | None) -> dict[str, Any]:
    """Halve the rows of a narrow tile in 16 bits where the cotangent of the sum is added.

    The addresses of five tensors that are strided then fit into registers under every triton.
    """
    crowded = h is not None and meta["UNIT"] == 1 and x.element_size() == 2
    return {**meta, "ROWS": meta["ROWS"] // 2} if crowded else dict(meta)


def for_both(found: Sequence[Tensor | None], needs: Sequence[bool]) -> Gradients:
    """Return gradients that are needed, of which the first is that of x and of the residual."""
    each = (found[0], *found)
    return tuple(one if need else None for one, need in zip(each, needs, strict=True))
