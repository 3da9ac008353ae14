"""Twin of spec.ops.mish."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import logistic, softened, tanh
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved
from fast.ops.sigmoid import logistic_wide
from fast.ops.softplus import softened_wide


@triton.jit
def _mish(x):
    return x * tanh(softened(x))


@triton.jit
def _vjp(x, g):
    t = tanh(softened(x))
    return (t + x * ((1.0 - t * t) * logistic(x))) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("mish", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Gate the input by the tanh of its softplus; the input is saved."""
    return pointwise.value(_mish, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (t + x (1 - t^2) sigmoid(x)) g for t = tanh(softplus(x))."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Gate the input by the tanh of its softplus, computed wide; the input is saved."""
    x32 = wide(x)
    return (x32 * softened_wide(x32).tanh_()).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return (t + x (1 - t^2) sigmoid(x)) g for t = tanh(softplus(x)), computed wide."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    x32 = wide(x)
    t = softened_wide(x32).tanh_()
    rate = t + x32 * ((1 - t * t) * logistic_wide(x32))
    return ((rate * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("mish", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
