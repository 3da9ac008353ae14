"""Twin of spec.ops.rsqrt.

It is a root and a division, each rounded correctly, and not the approximate instruction.
The input is saved.
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
def _rsqrt(x):
    return tl.div_rn(1.0, tl.sqrt_rn(x))


@triton.jit
def _vjp(x, g):
    s = tl.sqrt_rn(x)
    # A zero cotangent is absorbing, at the pole and outside the domain.
    return tl.where(g == 0, 0.0, -tl.div_rn(tl.div_rn(1.0, s), 2.0 * (s * s)) * g)


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("rsqrt", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Divide 1 by the square root of the input, which is saved."""
    return pointwise.value(_rsqrt, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return -g / (2 x sqrt(x)), or 0 where g is 0."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Divide 1 by the square root of the input, which is saved."""
    return wide(x).rsqrt().to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return -g / (2 x sqrt(x)), or 0 where g is 0."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    r = wide(x).rsqrt()
    gradient = (r * -0.5).mul_(r).mul_(r).mul_(cotangent)
    return (torch.where(cotangent == 0, 0.0, gradient).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("rsqrt", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
