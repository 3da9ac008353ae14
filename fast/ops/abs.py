"""Twin of spec.ops.abs.

The gradient is g, -g or 0 g, so that nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _abs(x):
    return tl.abs(x)


@triton.jit
def _vjp(x, g):
    # Neither comparison holds at 0, and for NaN.
    return tl.where(x < 0, -g, tl.where(x > 0, g, 0.0 * g))


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("abs", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the absolute value; the input is saved."""
    return pointwise.value(_abs, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g times the sign of x."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the absolute value; the input is saved."""
    return torch.abs(x), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g times the sign of x."""
    (x,) = saved
    return (torch.sgn(x) * cotangent if needs[0] else None,)


EXAMPLES = unary
op = pointwise.op("abs", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
