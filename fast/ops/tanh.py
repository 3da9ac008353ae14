"""Twin of spec.ops.tanh.

The kernels' tanh keeps relative accuracy everywhere, as `fast.kernels.elementwise.functions` says;
they save the input and compute it again. ATen saves the output, except in 16 bits, where the
gradient must not see the output's rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import NARROW, wide
from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import tanh
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved

_tanh_backward = torch.ops.aten.tanh_backward.default


@triton.jit
def _vjp(x, g):
    t = tanh(x)
    return (1.0 - t * t) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("tanh", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the hyperbolic tangent; the input is saved."""
    return pointwise.value(tanh, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (1 - tanh(x)^2) g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the hyperbolic tangent; the output is saved, or the input in 16 bits."""
    z = torch.tanh(x)
    return z, (x if x.dtype in NARROW else z,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (1 - tanh(x)^2) g."""
    (kept,) = saved
    if not needs[0]:
        return (None,)
    if kept.dtype in NARROW:
        return (_tanh_backward(wide(cotangent), wide(kept).tanh_()).to(kept.dtype),)
    return (_tanh_backward(cotangent, kept),)


EXAMPLES = unary
op = pointwise.op("tanh", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
