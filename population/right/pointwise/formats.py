"""Right casts, by the bits of numbers, and by a wider format."""

from __future__ import annotations

import torch
from torch import Tensor

from equivalence.cases.call import TORCH
from population.record import right


@right("cast value", "precision")
def half_of_the_last_place_added(x: Tensor, to: str) -> Tensor:
    """To bf16: half of the last place is added to the bits, less one where that place is even."""
    if to != "bf16":
        return x.to(TORCH[to])
    bits = x.view(torch.int32).long()
    rounded = bits + 0x7FFF + (bits >> 16 & 1)
    z = (rounded >> 16 << 16).to(torch.int32).view(torch.float32).to(torch.bfloat16)
    return torch.where(x.isnan(), torch.nan, z)


@right("cast vjp", "dtype")
def gradient_by_way_of_64_bits(g: Tensor, x: Tensor, to: str) -> Tensor:
    """The cotangent is widened first, which loses nothing."""
    return g.double().to(x.dtype)
