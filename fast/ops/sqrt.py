"""Twin of spec.ops.sqrt."""

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
def _sqrt(x):
    return tl.sqrt_rn(x)


@triton.jit
def _vjp(x, g):
    # A zero cotangent is absorbing, at the origin and outside the domain.
    return tl.where(g == 0, 0.0, tl.div_rn(g, 2 * tl.sqrt_rn(x)))


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("sqrt", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the square root; the input is saved."""
    return pointwise.value(_sqrt, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / (2 sqrt(x)), or 0 where g is 0."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the square root; the input is saved."""
    return torch.sqrt(x), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / (2 sqrt(x)), or 0 where g is 0."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    gradient = torch.div(cotangent, wide(x).sqrt().mul_(2))
    return (torch.where(cotangent == 0, 0.0, gradient).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("sqrt", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
