"""Twin of spec.ops.log1p.

The kernels' own log1p is in `fast.kernels.elementwise.functions`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import log1p
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved

TINY = 1e-30
"""Of numbers below it, of any format, 1 + x has nothing left, and ln(1 + x) is x."""


@triton.jit
def _vjp(x, g):
    # A zero cotangent is absorbing, at the pole and outside the domain.
    return tl.where(g == 0, 0.0, tl.div_rn(g, 1.0 + x))


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("log1p", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the logarithm of 1 plus the input; the input is saved."""
    return pointwise.value(log1p, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / (1 + x), or 0 where g is 0."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def log1p_wide(x: Tensor) -> Tensor:
    """Return ln(1 + x), in a tensor of its own: x itself where it is tiny.

    There torch, by Intel's MKL, returns 0 or another subnormal number.
    """
    return torch.where(x.abs() < TINY, x, x.log1p())


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the logarithm of 1 plus the input; the input is saved."""
    return log1p_wide(wide(x)).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / (1 + x), or 0 where g is 0."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    gradient = wide(cotangent) / (1 + wide(x))
    return (torch.where(cotangent == 0, 0.0, gradient).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("log1p", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
