"""Right rows of which a mask lets only a part pass: other ways to leave the rest out."""

from __future__ import annotations

import torch
from torch import Tensor

from population.record import right


@right("masked_softmax value", "value")
def numerators_chosen(x: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
    """The exponentials are chosen, added up, and divided by their sum, or by 1 where it is 0."""
    if not x.numel():
        return x
    wide = x.double() if x.dtype is torch.float64 else x.float()
    largest = wide.masked_fill(~mask, -torch.inf).amax(axis, keepdim=True)
    powers = torch.where(mask, torch.exp(wide - largest), 0.0)
    total = powers.sum(axis, keepdim=True)
    some = mask.any(axis, keepdim=True)
    return torch.where(mask, powers / torch.where(some, total, 1.0), 0.0).to(x.dtype)


@right("masked_softmax vjp", "gradient")
def shares_centred(g: Tensor, x: Tensor, mask: Tensor, axis: int = -1) -> tuple[Tensor, None]:
    """The probabilities are formed in double, and so is the mean that is subtracted."""
    share = torch.softmax(x.double().masked_fill(~mask, -torch.inf), axis).masked_fill(~mask, 0)
    sent = g.double().masked_fill(~mask, 0)
    dx = share * (sent - (share * sent).sum(axis, keepdim=True))
    return dx.masked_fill(~mask, 0).to(x.dtype), None
