"""Twin of spec.ops.leaky_relu.

The input is saved: a negative slope changes the sign, so that the output does not tell it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import with_attributes
from fast.kernels.page import Gradients, Saved

_leaky_relu_backward = torch.ops.aten.leaky_relu_backward.default


@triton.jit
def _leaky_relu(x, slope):
    return tl.where(x > 0, x, slope * x)


@triton.jit
def _vjp(x, g, slope):
    return tl.where(x > 0, g, slope * g)


def check(x: Tensor, *, slope: float = 0.01) -> None:
    """Refuse anything but a floating tensor, and a slope that is not finite (C1)."""
    checks.floats("leaky_relu", x)
    checks.finite("leaky_relu C1", slope=slope)


def value(x: Tensor, *, slope: float = 0.01) -> tuple[Tensor, Saved]:
    """Scale what is not positive; the input is saved."""
    return pointwise.value(_leaky_relu, x, scalars=(float(slope),)), (x, float(slope))


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g, times the slope where the input is not positive."""
    x, slope = saved
    return pointwise.vjp(_vjp, (x,), cotangent, needs, scalars=(slope,))


def aten_value(x: Tensor, *, slope: float = 0.01) -> tuple[Tensor, Saved]:
    """Scale what is not positive; the input is saved."""
    return torch.nn.functional.leaky_relu(x, slope), (x, float(slope))


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g, times the slope where the input is not positive."""
    x, slope = saved
    return (_leaky_relu_backward(cotangent, x, slope, False) if needs[0] else None,)


EXAMPLES = with_attributes(slope=0.25)
op = pointwise.op(
    "leaky_relu",
    check,
    value,
    vjp,
    aten_value,
    aten_vjp,
    inputs=("x",),
    attributes={"slope": 0.01},
)
