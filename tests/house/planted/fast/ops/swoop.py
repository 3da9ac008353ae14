"""Twin of spec.ops.swoop.

It saves its input.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import tanh
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _value(x):
    return tanh(x) + tl.exp(x)


@triton.jit
def _vjp(x, g):
    t = tanh(x)
    return (1.0 - t * t + tl.exp(x)) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("swoop", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Add both functions."""
    return pointwise.value(_value, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (1 - tanh(x)^2 + e^x) g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Add both functions, computed wide."""
    x32 = wide(x)
    return (torch.tanh(x32) + torch.exp(x32)).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (1 - tanh(x)^2 + e^x) g, computed wide."""
    if not needs[0]:
        return (None,)
    x32 = wide(saved[0])
    rate = 1.0 - torch.tanh(x32).square_() + torch.exp(x32)
    return ((rate * wide(cotangent)).to(cotangent.dtype),)


EXAMPLES = unary
op = pointwise.op("swoop", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
