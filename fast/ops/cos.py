"""Twin of spec.ops.cos.

The kernels' own cos is in `fast.kernels.elementwise.functions`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import cos, sin
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _vjp(x, g):
    # A minus in front is a difference from 0, which takes the sign of a zero.
    return (-1.0 * sin(x)) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("cos", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the cosine; the input is saved."""
    return pointwise.value(cos, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return -sin(x) g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the cosine; the input is saved."""
    return torch.cos(x), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return -sin(x) g."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    return ((-wide(x).sin() * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("cos", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
