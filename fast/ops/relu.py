"""Twin of spec.ops.relu.

The output is saved: it is positive, or NaN, exactly where the input is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved

_threshold_backward = torch.ops.aten.threshold_backward.default


@triton.jit
def _relu(x):
    # Written so, a NaN survives; `tl.maximum` would need to be told.
    return tl.where(x < 0, 0.0, x)


@triton.jit
def _vjp(z, g):
    return tl.where(z <= 0, 0.0, g)


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("relu", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Replace what is negative by zero; the output is saved."""
    z = pointwise.value(_relu, x)
    return z, (z,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g where the output is positive or NaN."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Replace what is negative by zero; the output is saved."""
    z = torch.relu(x)
    return z, (z,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g where the output is positive or NaN."""
    return (_threshold_backward(cotangent, saved[0], 0) if needs[0] else None,)


EXAMPLES = unary
op = pointwise.op("relu", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
