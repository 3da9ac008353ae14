"""Twin of spec.ops.silu.

torch's own is 0 where e^-x overflows, and its gradient takes 1 - s from a rounded s, so that
neither is called.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import logistic
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved
from fast.ops.sigmoid import logistic_wide


@triton.jit
def _silu(x):
    return x * logistic(x)


@triton.jit
def _vjp(x, g):
    return logistic(x) * (1.0 + x * logistic(-x)) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("silu", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Gate the input by its logistic curve; the input is saved."""
    return pointwise.value(_silu, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return s (1 + x (1 - s)) g for s = sigmoid(x)."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Gate the input by its logistic curve, computed wide; the input is saved."""
    x32 = wide(x)
    return (x32 * logistic_wide(x32)).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return s (1 + x (1 - s)) g for s = sigmoid(x), computed wide."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    x32 = wide(x)
    rate = logistic_wide(x32) * (1 + x32 * logistic_wide(-x32))
    return ((rate * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("silu", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
