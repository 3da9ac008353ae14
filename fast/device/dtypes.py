"""The dtypes of real numbers, one record each: how they are stored, computed, kept and rounded.

What is stored in 16 bits is computed in fp32 and rounded once, and its masters are fp32. A dtype
joins by its record here: what refuses, compiles, converts or updates reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import forward_ad


@dataclass(frozen=True, slots=True)
class Dtype:
    """One dtype.

    storage       the torch dtype of its tensors
    compute       the torch dtype in which kernels and their twins compute
    master        the torch dtype in which a session of this precision keeps its parameters
    digits        the number of significand bits
    lowest        the exponent of the smallest subnormal number
    kernels       whether the Triton kernels, which compute in fp32, take it
    """

    name: str
    storage: torch.dtype
    compute: torch.dtype
    master: torch.dtype
    digits: int
    lowest: int
    kernels: bool = True

    @property
    def narrow(self) -> bool:
        """Whether it is computed in a wider dtype than it is stored in."""
        return self.compute is not self.storage


FP32 = Dtype("fp32", torch.float32, torch.float32, torch.float32, 24, -149)
BF16 = Dtype("bf16", torch.bfloat16, torch.float32, torch.float32, 8, -133)
FP16 = Dtype("fp16", torch.float16, torch.float32, torch.float32, 11, -24)
FP64 = Dtype("fp64", torch.float64, torch.float64, torch.float64, 53, -1074, kernels=False)

NAMED = {dtype.name: dtype for dtype in (FP32, BF16, FP16, FP64)}
"""The records by their names."""
OF = {dtype.storage: dtype for dtype in NAMED.values()}
"""The records by the dtypes of tensors."""

KERNELS = frozenset(dtype.storage for dtype in OF.values() if dtype.kernels)
"""The dtypes of tensors that the Triton kernels take."""
NARROW = frozenset(dtype.storage for dtype in OF.values() if dtype.narrow)
"""The dtypes of tensors that are computed in a wider one than their own."""


def is_dual(x: Tensor) -> bool:
    """Say whether a tensor has a tangent, in torch's forward mode."""
    if forward_ad._current_level < 0:
        return False
    return forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]


def read_on_host(tensor: Tensor) -> bool:
    """Say whether a decision may read a tensor's numbers: they are here, and not a trace's.

    On a device it would wait for them, and a tensor that stands for any numbers has none.
    """
    return tensor.is_cpu and type(tensor) is Tensor


def wide(x: Tensor) -> Tensor:
    """Return a tensor in the dtype of computation: 16 bits as fp32, all others as they are."""
    return x.float() if x.dtype in NARROW else x


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which one of real numbers is computed."""
    return OF[dtype].compute


def copied(source: Tensor, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Copy a tensor of any layout to fresh contiguous storage of a dtype, rounding once.

    torch converts float64 to 16 bits by way of float32, and so rounds twice: 1 + 2^-8 + 2^-40
    becomes 1 + 2^-8, a tie of bf16, and then 1. The device is that of the source where None. A
    tangent is converted as its number is. Integers beyond 2^53 in magnitude are not for here: they
    are no numbers of float64.
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


def listed(dtypes: Collection[torch.dtype] = tuple(OF)) -> str:
    """Name dtypes in a message, such as 'float32, bfloat16 or float64', in the order above."""
    names = [str(dtype).removeprefix("torch.") for dtype in OF if dtype in dtypes]
    return f"{', '.join(names[:-1])} or {names[-1]}"
