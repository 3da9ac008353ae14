"""Twin of spec.ops.add.

The gradients are the cotangent itself.
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
def _add(x, y):
    return x + y


def check(x: Tensor, y: Tensor) -> None:
    """Refuse shapes that differ (C1)."""
    checks.pair("add", x, y)


def value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Add entry by entry."""
    return pointwise.value(_add, x, y), ()


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Hand the cotangent to both sides."""
    return cotangent if needs[0] else None, cotangent if needs[1] else None


def aten_value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Add entry by entry."""
    return torch.add(x, y), ()


aten_vjp = vjp


EXAMPLES = binary
op = pointwise.op("add", check, value, vjp, aten_value, aten_vjp, inputs=("x", "y"))
