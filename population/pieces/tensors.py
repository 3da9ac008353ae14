"""What several members are made of: memory read wrongly, numbers kept too narrowly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from equivalence.cases.call import TORCH
from fast.device.bridge import round_number

Axes = Sequence[int] | None


def memory(x: Tensor) -> Tensor:
    """Return all that lies in a tensor's allocation, in the order of its addresses."""
    size = x.untyped_storage().nbytes() // x.element_size()
    return torch.as_strided(x, (size,), (1,), 0)


def of_triplets(
    apart: Callable[..., Tensor],
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    margin: float = 1.0,
    p: int = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Score triplets by apart(u, v, p, eps), how far rows lie apart."""
    near, far = apart(anchor, positive, p, eps), apart(anchor, negative, p, eps)
    far = torch.minimum(far, apart(positive, negative, p, eps)) if swap else far
    return scored((near - far + margin).clamp(min=0), reduction)


def of_rows(how: Callable[..., Any]) -> Callable[..., Any]:
    """Let a normalizer of the last axis see all axes of its last input as one."""

    @wraps(how)
    def spanning(*tensors: Tensor, **attributes: Any) -> Any:
        span = tensors[-1].dim()
        found = how(*(t.flatten(-span) for t in tensors), **attributes)
        if isinstance(found, Tensor):
            return found.reshape(tensors[0].shape)
        # A gradient has the shape of its input, which comes after the cotangent.
        return tuple(t.reshape(x.shape) for t, x in zip(found, tensors[1:], strict=True))

    return spanning


def strides_ignored(x: Tensor) -> Tensor:
    """Read a tensor's memory from its first element on, as if it were contiguous."""
    stored = memory(x)
    at = (x.storage_offset() + torch.arange(x.numel())) % stored.numel()
    return stored[at].reshape(x.shape)


def offset_ignored(x: Tensor) -> Tensor:
    """Read a tensor as if it began where its allocation begins."""
    return torch.as_strided(x, x.shape, x.stride(), 0).clone()


def kept_in(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Round a tensor to a narrower format, and give it back in its own."""
    return x.to(dtype).to(x.dtype)


def rounded_once(x: Tensor, to: str) -> Tensor:
    """Round numbers to a format once, ties to even, by counting units of the last place."""
    counted = [round_number(entry, TORCH[to]) for entry in x.reshape(-1).tolist()]
    return torch.tensor(counted, dtype=torch.float64).reshape(x.shape).to(TORCH[to])


def first_only(z: Tensor, count: int, other: Tensor | float) -> Tensor:
    """Replace what lies behind the first entries of a result, counted row by row."""
    flat = z.reshape(-1)
    inside = torch.arange(flat.numel()) < count
    rest = other.reshape(-1) if isinstance(other, Tensor) else torch.full_like(flat, other)
    return torch.where(inside, flat, rest).reshape(z.shape)


def normal_axes(x: Tensor, axes: Axes) -> list[int]:
    """Return the axes of a reduction counted from the front; None means all."""
    return list(range(x.dim())) if axes is None else [axis % x.dim() for axis in axes]


def spread_back(g: Tensor, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    """Repeat a cotangent along the axes that were reduced."""
    if not keepdims:
        for axis in sorted(normal_axes(x, axes)):
            g = g.unsqueeze(axis)
    return g.expand(x.shape)


def reduced(x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    """Sum over axes; none at all leaves the tensor as it is."""
    normal = normal_axes(x, axes)
    return x.sum(dim=normal, keepdim=keepdims) if normal else x.clone()


def absorbed(g: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient that is 0 wherever the cotangent is, also at a pole (a page's choice)."""
    return torch.where(g == 0, torch.zeros_like(gradient), gradient)


Linear = Callable[[Tensor, Tensor, Tensor], Tensor]
LinearBack = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def on_matrices(call: Linear) -> Linear:
    """Let a linear layer that is written for matrices take an input with any leading axes."""

    @wraps(call)
    def every_rank(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        z = call(x.reshape(-1, x.shape[-1]), w, b)
        return z.reshape(*x.shape[:-1], z.shape[-1])

    return every_rank


def back_on_matrices(call: LinearBack) -> LinearBack:
    """Let the gradient of a linear layer that is written for matrices take any leading axes."""

    @wraps(call)
    def every_rank(g: Tensor, x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        flat = g.reshape(-1, g.shape[-1]), x.reshape(-1, x.shape[-1])
        dx, dw, db = call(*flat, w, b)
        return dx.reshape(x.shape), dw, db

    return every_rank


def scored(losses: Tensor, reduction: str) -> Tensor:
    """Reduce the losses of all entries, by a word."""
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def shared(g: Tensor, x: Tensor, reduction: str) -> Tensor:
    """Return what each entry receives of a cotangent."""
    return g / x.numel() if reduction == "mean" else g
