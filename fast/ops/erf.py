"""Twin of spec.ops.erf.

The kernels' own erf is in `fast.kernels.elementwise.functions`; the input is saved. torch's own of
16 bits has nothing left near 0, so that it is called in fp32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import erf
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved

_SLOPE = 2 / math.sqrt(math.pi)
SLOPE = tl.constexpr(_SLOPE)
"""The rate of erf at 0."""


@triton.jit
def _vjp(x, g):
    return tl.exp(-(x * x)) * SLOPE * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("erf", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the error function; the input is saved."""
    return pointwise.value(erf, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return 2 / sqrt(pi) e^-x^2 g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the error function, computed wide; the input is saved."""
    return torch.erf(wide(x)).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return 2 / sqrt(pi) e^-x^2 g, computed wide."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    rate = wide(x).square().neg_().exp_().mul_(_SLOPE)
    return ((rate * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("erf", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
