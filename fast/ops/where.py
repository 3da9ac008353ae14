"""Twin of spec.ops.where.

Kernels read the mask as bytes. The gradients are chosen, not multiplied, so that the side that was
not chosen is 0 whatever the cotangent; only the mask is saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import Example, binary
from fast.kernels.page import Gradients, Op, Saved


@triton.jit
def _where(mask, x, y):
    return tl.where(mask != 0, x, y)


@triton.jit
def _vjp(mask, g):
    return tl.where(mask != 0, g, 0.0), tl.where(mask != 0, 0.0, g)


def check(mask: Tensor, x: Tensor, y: Tensor) -> None:
    """Refuse shapes that differ (C1), and a mask that is not boolean (C2)."""
    if not mask.shape == x.shape == y.shape:
        came = ", ".join(str(tuple(t.shape)) for t in (mask, x, y))
        raise Rejected(f"where C1: all shapes are equal, got {came}; broadcast_to makes them so")
    if mask.dtype is not torch.bool:
        raise Rejected(f"where C2: the mask is boolean (torch.bool), got {mask.dtype}")
    checks.floats("where", x, y)
    if mask.device != x.device:
        raise Rejected(f"where: inputs lie on one device, got {mask.device}, {x.device}")


def value(mask: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Take x where the mask is true and y where it is not; the mask is saved."""
    z = torch.empty_like(x, memory_format=torch.contiguous_format)
    pointwise.run(_where, (mask.view(torch.uint8), x, y), (z,))
    return z, (mask,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Send the cotangent to the side that was chosen, and 0 to the other."""
    (mask,) = saved
    sides = pointwise.vjp(_vjp, (mask.view(torch.uint8),), cotangent, needs[1:])
    return (None, *sides)


def aten_value(mask: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Take x where the mask is true and y where it is not; the mask is saved."""
    return torch.where(mask, x, y), (mask,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Send the cotangent to the side that was chosen, and 0 to the other."""
    (mask,) = saved
    dx = torch.where(mask, cotangent, 0.0) if needs[1] else None
    return None, dx, torch.where(mask, 0.0, cotangent) if needs[2] else None


def EXAMPLES(dtype: torch.dtype) -> Iterator[Example]:
    """Yield a mask for each example of two inputs."""
    for (x, y), attributes in binary(dtype):
        yield (x > 0, x, y), attributes


op = Op(
    "where", check, value, vjp, aten_value, aten_vjp,
    inputs=("mask", "x", "y"), index_inputs=(0,), mask_inputs=(0,),
)  # fmt: skip
