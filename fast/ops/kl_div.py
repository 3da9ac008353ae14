"""Twin of spec.ops.kl_div.

Probabilities and their logarithms are both computed, and one of the two is what came, in one pass
(fast.kernels.losses.paired). Saved: the inputs, as they came.
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
def _weighed(p, information, x):
    # What has probability 0 costs nothing; the NaN of an x remains.
    return tl.where(p == 0, tl.where(x == x, 0.0, x), p * information)


@triton.jit
def _loss(x, target, log_target):
    p = tl.where(log_target != 0, tl.exp(target), target)
    return _weighed(p, tl.where(log_target != 0, target, tl.log(target)) - x, x)


@triton.jit
def _vjp(x, target, share, log_target):
    p = tl.where(log_target != 0, tl.exp(target), target)
    rate = tl.where(log_target != 0, target, tl.log(target)) - x + 1.0
    rate = tl.where(log_target != 0, _weighed(p, rate, x), rate)
    # A zero cotangent is absorbing, also at the pole.
    return tl.where(share == 0, 0.0, -p * share), tl.where(share == 0, 0.0, rate * share)


def check(x: Tensor, target: Tensor, *, log_target: bool = False, reduction: str = "mean") -> None:
    """Refuse shapes that differ (C1), an unknown reduction (C2), and a mean of nothing (C3)."""
    paired.check_pair("kl_div", x, target, reduction)


def value(
    x: Tensor, target: Tensor, *, log_target: bool = False, reduction: str = "mean"
) -> tuple[Tensor, Saved]:
    """Add up the divergences of the entries, or keep them; both inputs are saved."""
    way = (float(log_target),)
    return paired.of_pairs(_loss, x, target, reduction, way), (x, target, log_target, reduction)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return -p g, divided where the loss was, and (ln p - x + 1) g or p times that."""
    x, target, log_target, reduction = saved
    return paired.to_pairs(_vjp, x, target, cotangent, needs, reduction, (float(log_target),))


def _weighed_wide(p: Tensor, information: Tensor, x: Tensor) -> Tensor:
    """Return p times the information, which is 0 where p is 0; the NaN of an x remains."""
    return torch.where(p == 0, torch.where(x.isnan(), x, 0.0), p * information)


def aten_value(
    x: Tensor, target: Tensor, *, log_target: bool = False, reduction: str = "mean"
) -> tuple[Tensor, Saved]:
    """Add up the divergences of the entries, or keep them; both inputs are saved."""
    x32, t = wide(x), wide(target)
    each = _weighed_wide(t.exp() if log_target else t, (t if log_target else t.log()) - x32, x32)
    return paired.aten_reduced(each, reduction, x.dtype), (x, target, log_target, reduction)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return -p g, divided where the loss was, and (ln p - x + 1) g or p times that."""
    x, target, log_target, reduction = saved
    dx: Tensor | None = None
    dt: Tensor | None = None
    x32, t, share = wide(x), wide(target), paired.aten_share(cotangent, x, reduction)
    p = t.exp() if log_target else t
    if needs[0]:
        dx = torch.where(share == 0, 0.0, -p * share).to(x.dtype)
    if needs[1]:
        rate = (t if log_target else t.log()) - x32 + 1
        rate = _weighed_wide(p, rate, x32) if log_target else rate
        dt = torch.where(share == 0, 0.0, rate * share).to(x.dtype)
    return dx, dt


EXAMPLES = pairs(log_target=False)
op = Op(
    "kl_div", check, value, vjp, aten_value, aten_vjp,
    inputs=("x", "target"), attributes={"log_target": False, "reduction": "mean"},
)  # fmt: skip
