"""Twin of spec.ops.sin.

The kernels' own sin is in `fast.kernels.elementwise.functions`.
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
    return cos(x) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("sin", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the sine; the input is saved."""
    return pointwise.value(sin, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return cos(x) g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the sine; the input is saved."""
    return torch.sin(x), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return cos(x) g."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    return ((wide(x).cos() * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("sin", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
