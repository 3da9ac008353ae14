"""Right sums and products that are kept on the way, in other orders."""

from __future__ import annotations

import torch
from torch import Tensor

from population.record import right


@right("cumsum value", "precision", source="Hillis and Steele, 1986")
def by_doubling(x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False) -> Tensor:
    """Each entry adds the one that lies 1, 2, 4 and so on places before."""
    z = (x.flip(axis) if reverse else x).movedim(axis, -1)
    n = z.shape[-1]
    if exclusive:
        z = torch.nn.functional.pad(z, (1, 0))[..., :n]
    step = 1
    while step < n:
        z = torch.cat((z[..., :step], z[..., step:] + z[..., :-step]), -1)
        step *= 2
    z = z.movedim(-1, axis)
    return z.flip(axis) if reverse else z.clone()


@right("cumsum vjp", "gradient")
def by_a_triangle(
    g: Tensor, x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """Each gradient is a sum of its own over what it was added to."""
    y = g.movedim(axis, -1)
    n = y.shape[-1]
    rows = [
        (y[..., :k] if exclusive else y[..., : k + 1]).sum(-1)
        if reverse
        else (y[..., k + 1 :] if exclusive else y[..., k:]).sum(-1)
        for k in range(n)
    ]
    return torch.stack(rows, -1).movedim(-1, axis).clone()
