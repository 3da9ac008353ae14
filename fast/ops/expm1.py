"""Twin of spec.ops.expm1.

The kernels' own expm1 is in `fast.kernels.elementwise.functions`; the gradient is a plain
exponential.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import expm1
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _vjp(x, g):
    return tl.exp(x) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("expm1", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Subtract 1 from the exponential; the input is saved."""
    return pointwise.value(expm1, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return exp(x) g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Subtract 1 from the exponential; the input is saved."""
    return torch.expm1(x), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return exp(x) g."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    return ((wide(x).exp() * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("expm1", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
