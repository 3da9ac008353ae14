"""Twin of spec.ops.exp.

The kernels save the input and compute exp again; ATen saves the output, except in 16 bits, where
the gradient must not see the output's rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import NARROW, wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _exp(x):
    return tl.exp(x)


@triton.jit
def _vjp(x, g):
    return tl.exp(x) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("exp", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the exponential; the input is saved."""
    return pointwise.value(_exp, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return exp(x) g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the exponential; the output is saved, or the input in 16 bits."""
    z = torch.exp(x)
    return z, (x if x.dtype in NARROW else z,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return exp(x) g."""
    (kept,) = saved
    if not needs[0]:
        return (None,)
    if kept.dtype in NARROW:
        return (wide(kept).exp_().mul_(cotangent).to(kept.dtype),)
    return (torch.mul(kept, cotangent),)


EXAMPLES = unary
op = pointwise.op("exp", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
