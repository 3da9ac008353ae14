"""Twin of spec.ops.softplus.

torch's own is the identity beyond a threshold of 20, which float64 can tell from softplus, so that
it is not called.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import logistic, softened
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved
from fast.ops.sigmoid import logistic_wide, shrunk_wide


@triton.jit
def _vjp(x, g):
    return logistic(x) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("softplus", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Bend the input smoothly from 0 to itself; the input is saved."""
    return pointwise.value(softened, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return sigmoid(x) g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def softened_wide(x: Tensor) -> Tensor:
    """Return ln(1 + e^x), in a tensor of its own."""
    return shrunk_wide(x).log1p_().add_(torch.where(x < 0, 0.0, x))


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Bend the input smoothly from 0 to itself, computed wide; the input is saved."""
    return softened_wide(wide(x)).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return sigmoid(x) g, computed wide."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    return ((logistic_wide(wide(x)) * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("softplus", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
