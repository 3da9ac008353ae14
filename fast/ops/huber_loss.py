"""Twin of spec.ops.huber_loss.

Both pieces are computed, and one is chosen, in one pass (fast.kernels.losses.paired). Saved: the
inputs, as they came.
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


@triton.jit
def _loss(x, y, delta):
    d = x - y
    far = tl.abs(d)
    return tl.where(far > delta, delta * (far - 0.5 * delta), 0.5 * (d * d))


@triton.jit
def _vjp(x, y, share, delta):
    d = x - y
    # Written so, a NaN survives.
    slope = tl.where(d > delta, delta, tl.where(d < -delta, -delta, d)) * share
    return slope, -slope


def check(x: Tensor, y: Tensor, *, delta: float = 1.0, reduction: str = "mean") -> None:
    """Refuse what losses of pairs do (C1 to C3), and a delta that is not positive (C4)."""
    paired.check_pair("huber_loss", x, y, reduction)
    if not 0 < delta < math.inf:
        raise Rejected(f"huber_loss C4: delta is finite and positive; got {delta!r}")


def value(
    x: Tensor, y: Tensor, *, delta: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, Saved]:
    """Add up squares of small differences and lines beyond, or keep them; the inputs are saved."""
    knee = float(delta)
    return paired.of_pairs(_loss, x, y, reduction, (knee,)), (x, y, knee, reduction)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return x - y, cut off at delta, times g, divided where the loss was, and its opposite."""
    x, y, knee, reduction = saved
    return paired.to_pairs(_vjp, x, y, cotangent, needs, reduction, (knee,))


def aten_value(
    x: Tensor, y: Tensor, *, delta: float = 1.0, reduction: str = "mean"
) -> tuple[Tensor, Saved]:
    """Add up squares of small differences and lines beyond, or keep them; the inputs are saved."""
    knee, d = float(delta), wide(x) - wide(y)
    far = d.abs()
    each = torch.where(far > knee, knee * (far - 0.5 * knee), 0.5 * d.square())
    return paired.aten_reduced(each, reduction, x.dtype), (x, y, knee, reduction)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return x - y, cut off at delta, times g, divided where the loss was, and its opposite."""
    x, y, knee, reduction = saved
    if not any(needs):
        return None, None
    slope = (wide(x) - wide(y)).clamp_(-knee, knee)
    slope = (slope * paired.aten_share(cotangent, x, reduction)).to(x.dtype)
    return slope if needs[0] else None, -slope if needs[1] else None


EXAMPLES = pairs(delta=1.0)
op = Op(
    "huber_loss", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "y"), attributes={"delta": 1.0, "reduction": "mean"},
)  # fmt: skip
