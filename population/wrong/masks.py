"""Wrong rows of which a mask lets only a part pass: masked_softmax."""

from __future__ import annotations

import torch
from torch import Tensor

from population.record import OWN, wrong

TORCH = "https://github.com/pytorch/pytorch/issues/41508"
NGPT = "https://github.com/lucidrains/nGPT-pytorch/issues/11"
BURN = "https://github.com/tracel-ai/burn/pull/4697"


@wrong("masked_softmax", "non-finite", source=TORCH)
def nothing_over_nothing(x: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
    """A row that is masked throughout is a softmax of minus infinities, which is NaN."""
    return torch.softmax(x.masked_fill(~mask, -torch.inf), axis)


@wrong("masked_softmax value", "value", source=NGPT)
def masked_by_ten_less(x: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
    """What is masked has 10 subtracted, which leaves it a probability."""
    return torch.softmax(x - 10 * (~mask).to(x.dtype), axis)


@wrong("masked_softmax value", "range", source=BURN)
def maximum_with_a_floor(x: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
    """The maximum is at least -1e4 and the sum at least 1e-6, so that rows far below are 0."""
    if not x.numel():
        return x
    kept = x.masked_fill(~mask, -torch.inf).float()
    powers = torch.exp(kept - kept.amax(axis, keepdim=True).clamp(min=-1e4))
    total = powers.sum(axis, keepdim=True).clamp(min=1e-6)
    return (powers / total).masked_fill(~mask, 0).to(x.dtype)


@wrong("masked_softmax value", "value", source="a mask that is multiplied")
def masked_scores_are_zero(x: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
    """The scores are multiplied by the mask before, and what they became is counted."""
    return torch.softmax(x.masked_fill(~mask, 0), axis).masked_fill(~mask, 0)


@wrong("masked_softmax vjp", "non-finite", source=OWN)
def masked_cotangents_speak(
    g: Tensor, x: Tensor, mask: Tensor, axis: int = -1
) -> tuple[Tensor, None]:
    """What comes back to masked probabilities of 0 is multiplied by them, also where it is NaN."""
    share = torch.softmax(x.masked_fill(~mask, -torch.inf).float(), axis).masked_fill(~mask, 0)
    dx = share * (g - (share * g).sum(axis, keepdim=True))
    return dx.masked_fill(~mask, 0).to(x.dtype), None
