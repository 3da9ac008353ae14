"""Twin of spec.ops.div.

Division rounds to nearest, in the kernels too. The gradient of y divides twice
and then multiplies: y is never squared.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import binary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _div(x, y):
    return tl.div_rn(x, y)


@triton.jit
def _vjp(x, y, g):
    # A zero cotangent is absorbing, at the pole and at NaN.
    dx = tl.where(g == 0, 0.0, tl.div_rn(g, y))
    dy = tl.where(g == 0, 0.0, -tl.div_rn(tl.div_rn(x, y), y) * g)
    return dx, dy


def check(x: Tensor, y: Tensor) -> None:
    """Refuse shapes that differ (C1)."""
    checks.pair("div", x, y)


def value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Divide entry by entry; both inputs are saved."""
    return pointwise.value(_div, x, y), (x, y)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / y and -((x / y) / y) g, or 0 where g is 0."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Divide entry by entry; both inputs are saved."""
    return torch.div(x, y), (x, y)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / y and -((x / y) / y) g, or 0 where g is 0."""
    x, y = saved
    dead = cotangent == 0
    dx = torch.where(dead, 0.0, cotangent / y) if needs[0] else None
    if not needs[1]:
        return dx, None
    divisor = wide(y)
    dy = torch.where(dead, 0.0, (wide(x) / divisor).div_(divisor).neg_().mul_(cotangent))
    return dx, dy.to(x.dtype)


EXAMPLES = binary
op = pointwise.op("div", check, value, vjp, aten_value, aten_vjp, inputs=("x", "y"))
