"""Right products along axes, whole or on the way, in other orders."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.tensors import Axes, normal_axes, spread_back
from population.record import right


def _lines(x: Tensor, axes: Axes) -> Tensor:
    """Bring the axes together, as the last one."""
    normal = normal_axes(x, axes)
    kept = [a for a in range(x.dim()) if a not in normal]
    count = 1
    for axis in normal:
        count *= x.shape[axis]
    return x.permute([*kept, *normal]).reshape(*(x.shape[a] for a in kept), count)


def _shaped(z: Tensor, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    normal = normal_axes(x, axes)
    return z.reshape([1 if a in normal else n for a, n in enumerate(x.shape)]) if keepdims else z


@right("prod value", "precision")
def halves_meet(x: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """The halves of a row are multiplied entry by entry until one is left."""
    y = _lines(x, axes).float() if x.dtype.itemsize < 4 else _lines(x, axes)
    while y.shape[-1] > 1:
        if y.shape[-1] % 2:
            y = torch.cat((y, torch.ones_like(y[..., :1])), -1)
        half = y.shape[-1] // 2
        y = y[..., :half] * y[..., half:]
    z = y[..., 0] if y.shape[-1] else torch.ones_like(y.sum(-1))
    return _shaped(z.to(x.dtype), x, axes, keepdims).clone()


@right("prod vjp", "gradient")
def entries_before_and_behind(
    g: Tensor, x: Tensor, axes: Axes = None, keepdims: bool = False
) -> Tensor:
    """What lies before an entry is multiplied on the way, and what lies behind it, in double."""
    y = _lines(x, axes).double()
    one = torch.ones_like(y[..., :1])
    before = torch.cat((one, y[..., :-1]), -1).cumprod(-1) if y.shape[-1] else y
    behind = torch.cat((one, y.flip(-1)[..., :-1]), -1).cumprod(-1).flip(-1) if y.shape[-1] else y
    normal = normal_axes(x, axes)
    order = [*(a for a in range(x.dim()) if a not in normal), *normal]
    rate = (before * behind).reshape([x.shape[a] for a in order])
    rate = rate.permute([order.index(a) for a in range(x.dim())])
    return (spread_back(g, x, axes, keepdims).double() * rate).to(x.dtype)


@right("cumprod value", "precision", source="Hillis and Steele, 1986")
def products_by_doubling(x: Tensor, axis: int) -> Tensor:
    """Each entry is multiplied by the one that lies 1, 2, 4 and so on places before."""
    z = x.movedim(axis, -1)
    z, step = z.float() if x.dtype.itemsize < 4 else z, 1
    while step < z.shape[-1]:
        z = torch.cat((z[..., :step], z[..., step:] * z[..., :-step]), -1)
        step *= 2
    return z.to(x.dtype).movedim(-1, axis).clone()


@right("cumprod vjp", "gradient")
def carried_back_one_by_one(g: Tensor, x: Tensor, axis: int) -> Tensor:
    """Cotangents are carried back by one entry after the other, in double."""
    y, h = x.movedim(axis, -1).double(), g.movedim(axis, -1).double()
    carried = torch.zeros_like(h)
    for k in reversed(range(y.shape[-1])):
        behind = y[..., k + 1] * carried[..., k + 1] if k + 1 < y.shape[-1] else 0.0
        carried[..., k] = h[..., k] + behind
    before = torch.cat((torch.ones_like(y[..., :1]), y[..., :-1]), -1).cumprod(-1)
    return (before * carried).to(x.dtype).movedim(-1, axis).clone()
