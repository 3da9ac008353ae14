"""Conversions that round each number once, to nearest with ties to even.

torch converts float64 to 16 bits by way of float32, and rounds twice: 1 + 2^-8 + 2^-40 becomes
1 + 2^-8, a tie of bf16, and then 1. Here the first of the two roundings is to odd, so that the
second one sees on which side of a tie a number lies.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

from fast.device.dtypes import KERNELS, OF, is_dual


def copied(source: Tensor, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Copy a tensor of any layout to fresh contiguous storage of a dtype, rounding once.

    The device is that of the source where None. A tangent is converted as its number is. Integers
    beyond 2^53 in magnitude are no numbers of float64, and are not for here.
    """
    if is_dual(source):
        number, tangent = forward_ad.unpack_dual(source)  # type: ignore[no-untyped-call]
        pair = copied(number, dtype, device), copied(tangent, dtype, device)
        both: Tensor = forward_ad.make_dual(*pair)  # type: ignore[no-untyped-call]
        return both
    if OF[dtype].narrow and source.dtype not in KERNELS:
        source = _to_odd(source.to(torch.float64))
    place = source.device if device is None else device
    return source.to(place, dtype, copy=True, memory_format=torch.contiguous_format)


def _to_odd(source: Tensor) -> Tensor:
    """Round float64 to float32 so that a later rounding to fewer digits is exact."""
    nearest = source.to(torch.float32)
    back = nearest.to(torch.float64)
    bits = nearest.view(torch.int32)
    away = (back.abs() > source.abs()) & back.isfinite()
    bits = torch.where(away | (back.isinf() & source.isfinite()), bits - 1, bits)
    inexact = (back != source) & source.isfinite()
    return torch.where(inexact, bits | 1, bits).view(torch.float32)
