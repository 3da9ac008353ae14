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


def wide(x: Tensor) -> Tensor:
    """Return a tensor in the dtype of computation: 16 bits as fp32, all others as they are."""
    return x.float() if x.dtype in NARROW else x


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which one of real numbers is computed."""
    return OF[dtype].compute


def listed(dtypes: Collection[torch.dtype] = tuple(OF)) -> str:
    """Name dtypes in a message, such as 'float32, bfloat16 or float64', in the order above."""
    names = [str(dtype).removeprefix("torch.") for dtype in OF if dtype in dtypes]
    return f"{', '.join(names[:-1])} or {names[-1]}"
