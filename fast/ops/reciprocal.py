"""Twin of spec.ops.reciprocal.

The input is saved: in 16 bits the gradient must not see the output's rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _reciprocal(x):
    return tl.div_rn(1.0, x)


@triton.jit
def _vjp(x, g):
    r = tl.div_rn(1.0, x)
    # A zero cotangent is absorbing, also at the pole.
    return tl.where(g == 0, 0.0, -(r * r) * g)


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("reciprocal", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Divide 1 by the input, which is saved."""
    return pointwise.value(_reciprocal, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return -g / x^2, or 0 where g is 0."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Divide 1 by the input, which is saved."""
    return torch.reciprocal(x), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return -g / x^2, or 0 where g is 0."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    gradient = wide(x).reciprocal().square_().neg_().mul_(cotangent)
    return (torch.where(cotangent == 0, 0.0, gradient).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("reciprocal", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
