"""Twin of spec.ops.hardswish."""

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
from fast.ops.hardsigmoid import line


@triton.jit
def _hardswish(x):
    line = tl.div_rn(x + 3.0, 6.0)
    return x * tl.where(x < -3.0, 0.0, tl.where(x > 3.0, 1.0, line))


@triton.jit
def _vjp(x, g):
    # What is flat is chosen, not multiplied by: an infinite cotangent leaves nothing there.
    slope = tl.div_rn(2.0 * x + 3.0, 6.0) * g
    return tl.where(x <= -3.0, 0.0, tl.where(x < 3.0, slope, g))


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("hardswish", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Gate the input by the line of hardsigmoid; the input is saved."""
    return pointwise.value(_hardswish, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (2 x + 3) g / 6 between the kinks, 0 below and g above."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Gate the input by the line of hardsigmoid, computed wide; the input is saved."""
    x32 = wide(x)
    return (x32 * line(x32)).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (2 x + 3) g / 6 between the kinks, 0 below and g above, computed wide."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    slope = (2 * wide(x) + 3) / 6 * wide(cotangent)
    above = torch.where(x < 3, slope, wide(cotangent))
    return (torch.where(x <= -3, 0.0, above).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("hardswish", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
