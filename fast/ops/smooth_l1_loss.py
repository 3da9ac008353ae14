"""Twin of spec.ops.smooth_l1_loss.

Both pieces are computed, and one is chosen, in one pass (fast.kernels.losses.paired). With beta = 0
there is no rounded piece, and its quotients are not looked at. Saved: the inputs, as they came.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels.examples import pairs
from fast.kernels.losses import paired
from fast.kernels.page import Gradients, Op, Saved
from fast.ops import mae_loss


@triton.jit
def _loss(x, y, beta):
    d = x - y
    far = tl.abs(d)
    return tl.where(far < beta, tl.div_rn(0.5 * (d * d), beta), far - 0.5 * beta)


@triton.jit
def _vjp(x, y, share, beta):
    d = x - y
    # Written so, a NaN survives, and a difference of 0 has slope 0 where beta is 0 as well.
    inner = tl.div_rn(d, tl.where(beta == 0.0, 1.0, beta))
    slope = tl.where(d > beta, 1.0, tl.where(d < -beta, -1.0, inner)) * share
    return slope, -slope


def check(x: Tensor, y: Tensor, *, beta: float = 1.0, reduction: str = "mean") -> None:
    """Refuse what losses of pairs do (C1 to C3), and a beta that is negative (C4)."""
    paired.check_pair("smooth_l1_loss", x, y, reduction)
    if not 0 <= beta < math.inf:
        raise Rejected(f"smooth_l1_loss C4: beta is finite and not negative; got {beta!r}")


def value(
    x: Tensor, y: Tensor, *, beta: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, Saved]:
    """Add up absolute differences, rounded off near 0, or keep them; the inputs are saved."""
    knee = float(beta)
    z = paired.of_pairs(_loss, x, y, reduction, (knee,))
    return z, (x, y, knee, reduction)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (x - y) / beta, cut off at 1, times g, divided where the loss was; its opposite."""
    x, y, knee, reduction = saved
    return paired.to_pairs(_vjp, x, y, cotangent, needs, reduction, (knee,))


def aten_value(
    x: Tensor, y: Tensor, *, beta: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, Saved]:
    """Add up absolute differences, rounded off near 0, or keep them; the inputs are saved."""
    knee, d = float(beta), wide(x) - wide(y)
    far = d.abs()
    if knee:
        far = torch.where(far < knee, 0.5 * d.square() / knee, far - 0.5 * knee)
    return paired.aten_reduced(far, reduction, x.dtype), (x, y, knee, reduction)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (x - y) / beta, cut off at 1, times g, divided where the loss was; its opposite."""
    x, y, knee, reduction = saved
    if knee == 0 or not any(needs):
        return mae_loss.aten_vjp((x, y, reduction), cotangent, needs)
    slope = ((wide(x) - wide(y)) / knee).clamp_(-1, 1)
    slope = (slope * paired.aten_share(cotangent, x, reduction)).to(x.dtype)
    return slope if needs[0] else None, -slope if needs[1] else None


EXAMPLES = pairs(beta=1.0)
op = Op(
    "smooth_l1_loss", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "y"), attributes={"beta": 1.0, "reduction": "mean"},
)  # fmt: skip
