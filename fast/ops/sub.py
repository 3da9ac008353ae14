"""Twin of spec.ops.sub.

The gradient of x is the cotangent itself.
"""

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
def _sub(x, y):
    return x - y


@triton.jit
def _neg(g):
    return -g


def check(x: Tensor, y: Tensor) -> None:
    """Refuse shapes that differ (C1)."""
    checks.pair("sub", x, y)


def value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Subtract entry by entry."""
    return pointwise.value(_sub, x, y), ()


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Hand the cotangent to x, and its negative to y."""
    negative = pointwise.value(_neg, cotangent) if needs[1] else None
    return cotangent if needs[0] else None, negative


def aten_value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Subtract entry by entry."""
    return torch.sub(x, y), ()


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Hand the cotangent to x, and its negative to y."""
    return cotangent if needs[0] else None, torch.neg(cotangent) if needs[1] else None


EXAMPLES = binary
op = pointwise.op("sub", check, value, vjp, aten_value, aten_vjp, inputs=("x", "y"))
