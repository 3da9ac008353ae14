"""Twin of spec.ops.log."""

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
def _log(x):
    return tl.log(x)


@triton.jit
def _vjp(x, g):
    # A zero cotangent is absorbing, at the pole and outside the domain.
    return tl.where(g == 0, 0.0, tl.div_rn(g, x))


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("log", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the natural logarithm; the input is saved."""
    return pointwise.value(_log, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / x, or 0 where g is 0."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the natural logarithm; the input is saved."""
    return torch.log(x), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / x, or 0 where g is 0."""
    (x,) = saved
    return (torch.where(cotangent == 0, 0.0, cotangent / x) if needs[0] else None,)


EXAMPLES = unary
op = pointwise.op("log", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
