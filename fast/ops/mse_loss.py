"""Twin of spec.ops.mse_loss.

Difference, square and sum are one pass (fast.kernels.losses.paired). Saved: the inputs, as they
came. ATen's kernel of the gradient multiplies by a rounded 2 / n.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels.examples import pairs
from fast.kernels.losses import paired
from fast.kernels.losses.paired import REDUCTIONS
from fast.kernels.page import Gradients, Op, Saved

_backward = torch.ops.aten.mse_loss_backward.default


@triton.jit
def _loss(x, y):
    return (x - y) * (x - y)


@triton.jit
def _vjp(x, y, share):
    slope = 2.0 * (x - y) * share
    return slope, -slope


def check(x: Tensor, y: Tensor, *, reduction: str = "mean") -> None:
    """Refuse shapes that differ (C1), an unknown reduction (C2), and a mean of nothing (C3)."""
    paired.check_pair("mse_loss", x, y, reduction)


def value(x: Tensor, y: Tensor, *, reduction: str = "mean") -> tuple[Tensor, Saved]:
    """Add up the squared differences, or keep them; both inputs are saved."""
    return paired.of_pairs(_loss, x, y, reduction), (x, y, reduction)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return 2 (x - y) g, divided where the loss was, and its opposite."""
    x, y, reduction = saved
    return paired.to_pairs(_vjp, x, y, cotangent, needs, reduction)


def aten_value(x: Tensor, y: Tensor, *, reduction: str = "mean") -> tuple[Tensor, Saved]:
    """Add up the squared differences, or keep them; both inputs are saved."""
    z = torch.ops.aten.mse_loss.default(wide(x), wide(y), REDUCTIONS[reduction])
    return z.to(x.dtype), (x, y, reduction)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return 2 (x - y) g, divided where the loss was, and its opposite."""
    x, y, reduction = saved
    if not any(needs):
        return None, None
    first, second = (x, y) if needs[0] else (y, x)
    slope = _backward(wide(cotangent), wide(first), wide(second), REDUCTIONS[reduction]).to(x.dtype)
    if not needs[0]:
        return None, slope
    return slope, -slope if needs[1] else None


EXAMPLES = pairs()
op = Op(
    "mse_loss", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "y"), attributes={"reduction": "mean"},
)  # fmt: skip
