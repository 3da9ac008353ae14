"""Twin of spec.ops.sigmoid.

Both providers compute from e^-|x|, as the page does. torch's own sigmoid is 0 where e^-x overflows,
and its gradient, g z (1 - z), has nothing left where z is rounded to 1. So the input is saved.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import logistic, shrunk
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _vjp(x, g):
    e = shrunk(x)
    return tl.div_rn(e, (1.0 + e) * (1.0 + e)) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("sigmoid", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Map each entry to between 0 and 1; the input is saved."""
    return pointwise.value(logistic, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g e / (1 + e)^2 for e = e^-|x|."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def shrunk_wide(x: Tensor) -> Tensor:
    """Return e^-|x|, which overflows nowhere, in a tensor of its own."""
    # Not by `abs`, whose tangent is 0 at 0, where the curves that are built on this have slopes.
    return torch.where(x < 0, x, -x).exp_()


def logistic_wide(x: Tensor) -> Tensor:
    """Return 1 / (1 + e^-x), in a tensor of its own."""
    e = shrunk_wide(x)
    return torch.where(x < 0, e, 1.0) / e.add_(1)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Map each entry to between 0 and 1, computed wide; the input is saved."""
    return logistic_wide(wide(x)).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g e / (1 + e)^2 for e = e^-|x|, computed wide."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    e = shrunk_wide(wide(x))
    return ((e / (1 + e).square_() * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("sigmoid", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
