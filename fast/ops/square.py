"""Twin of spec.ops.square."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _square(x):
    return x * x


@triton.jit
def _vjp(x, g):
    return 2.0 * x * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("square", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Square entry by entry; the input is saved."""
    return pointwise.value(_square, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return 2 x g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Square entry by entry; the input is saved."""
    return torch.mul(x, x), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return 2 x g; doubling is exact, and in fp32 it overflows no 16-bit number."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    source = wide(x)
    return (torch.add(source, source).mul_(cotangent).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("square", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
