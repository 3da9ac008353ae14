"""Twin of spec.ops.mae_loss.

Difference, absolute value and sum are one pass (fast.kernels.losses.paired). Saved: the inputs, as
they came.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels.examples import pairs
from fast.kernels.losses import paired
from fast.kernels.page import Gradients, Op, Saved


@triton.jit
def _loss(x, y):
    return tl.abs(x - y)


@triton.jit
def _vjp(x, y, share):
    # Neither comparison holds where the two are equal, and for NaN.
    d = x - y
    slope = tl.where(d < 0, -share, tl.where(d > 0, share, 0.0 * share))
    return slope, -slope


def check(x: Tensor, y: Tensor, *, reduction: str = "mean") -> None:
    """Refuse shapes that differ (C1), an unknown reduction (C2), and a mean of nothing (C3)."""
    paired.check_pair("mae_loss", x, y, reduction)


def value(x: Tensor, y: Tensor, *, reduction: str = "mean") -> tuple[Tensor, Saved]:
    """Add up the absolute differences, or keep them; both inputs are saved."""
    return paired.of_pairs(_loss, x, y, reduction), (x, y, reduction)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return the sign of x - y times g, divided where the loss was, and its opposite."""
    x, y, reduction = saved
    return paired.to_pairs(_vjp, x, y, cotangent, needs, reduction)


def aten_value(x: Tensor, y: Tensor, *, reduction: str = "mean") -> tuple[Tensor, Saved]:
    """Add up the absolute differences, or keep them; both inputs are saved."""
    z = paired.aten_reduced((wide(x) - wide(y)).abs_(), reduction, x.dtype)
    return z, (x, y, reduction)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return the sign of x - y times g, divided where the loss was, and its opposite."""
    x, y, reduction = saved
    if not any(needs):
        return None, None
    side = torch.sgn(wide(x) - wide(y))
    slope = (side * paired.aten_share(cotangent, x, reduction)).to(x.dtype)
    return slope if needs[0] else None, -slope if needs[1] else None


EXAMPLES = pairs()
op = Op(
    "mae_loss", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "y"), attributes={"reduction": "mean"},
)  # fmt: skip
