"""Twin of spec.ops.bce_with_logits.

Loss and sum are one pass (fast.kernels.losses). Saved: the inputs, as they came.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels.elementwise.functions import log1p, shrunk
from fast.kernels.examples import pairs
from fast.kernels.losses import pairs as paired
from fast.kernels.page import Gradients, Op, Saved
from fast.ops.sigmoid import shrunk_wide


@triton.jit
def _loss(x, target):
    return tl.where(x < 0, -x * target, x * (1.0 - target)) + log1p(shrunk(x))


@triton.jit
def _vjp(x, target, share):
    e = shrunk(x)
    below = tl.div_rn(e, 1.0 + e)
    slope = tl.where(x < 0, below - target, (1.0 - target) - below)
    return slope * share, -x * share


def check(x: Tensor, target: Tensor, *, reduction: str = "mean") -> None:
    """Refuse shapes that differ (C1), an unknown reduction (C2), and a mean of nothing (C3)."""
    paired.check_pair("bce_with_logits", x, target, reduction)


def value(x: Tensor, target: Tensor, *, reduction: str = "mean") -> tuple[Tensor, Saved]:
    """Add up the cross-entropies, or keep them; both inputs are saved."""
    return paired.of_pairs(_loss, x, target, reduction), (x, target, reduction)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (sigmoid(x) - target) g, divided where the loss was, and -x g."""
    x, target, reduction = saved
    return paired.to_pairs(_vjp, x, target, cotangent, needs, reduction)


def aten_value(x: Tensor, target: Tensor, *, reduction: str = "mean") -> tuple[Tensor, Saved]:
    """Add up the cross-entropies, or keep them; both inputs are saved."""
    x32, t = wide(x), wide(target)
    each = torch.where(x32 < 0, -x32 * t, x32 * (1 - t)) + shrunk_wide(x32).log1p_()
    return paired.aten_reduced(each, reduction, x.dtype), (x, target, reduction)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (sigmoid(x) - target) g, divided where the loss was, and -x g."""
    x, target, reduction = saved
    dx: Tensor | None = None
    dt: Tensor | None = None
    x32, share = wide(x), paired.aten_share(cotangent, x, reduction)
    if needs[0]:
        t, e = wide(target), shrunk_wide(x32)
        below = e / (1 + e)
        dx = (torch.where(x32 < 0, below - t, (1 - t) - below) * share).to(x.dtype)
    if needs[1]:
        dt = (-x32 * share).to(x.dtype)
    return dx, dt


EXAMPLES = pairs()
op = Op(
    "bce_with_logits", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "target"), attributes={"reduction": "mean"},
)  # fmt: skip
