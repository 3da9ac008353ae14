"""Twin of spec.ops.mul."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import binary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _mul(x, y):
    return x * y


@triton.jit
def _vjp(x, y, g):
    return y * g, x * g


def check(x: Tensor, y: Tensor) -> None:
    """Refuse shapes that differ (C1)."""
    checks.pair("mul", x, y)


def value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Multiply entry by entry; both inputs are saved."""
    return pointwise.value(_mul, x, y), (x, y)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Multiply the cotangent with the other side."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Multiply entry by entry; both inputs are saved."""
    return torch.mul(x, y), (x, y)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Multiply the cotangent with the other side."""
    x, y = saved
    dx = torch.mul(cotangent, y) if needs[0] else None
    return dx, torch.mul(cotangent, x) if needs[1] else None


EXAMPLES = binary
op = pointwise.op("mul", check, value, vjp, aten_value, aten_vjp, inputs=("x", "y"))
