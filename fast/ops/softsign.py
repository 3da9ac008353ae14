"""Twin of spec.ops.softsign."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _softsign(x):
    return tl.div_rn(x, 1.0 + tl.abs(x))


@triton.jit
def _vjp(x, g):
    inverse = tl.div_rn(1.0, 1.0 + tl.abs(x))
    return inverse * inverse * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("softsign", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Divide by one more than the magnitude; the input is saved."""
    return pointwise.value(_softsign, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / (1 + |x|)^2."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Divide by one more than the magnitude, computed wide; the input is saved."""
    return (wide(x) / wide(x).abs().add_(1)).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / (1 + |x|)^2, computed wide."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    rate = wide(x).abs().add_(1).reciprocal_().square_()
    return ((rate * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("softsign", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
