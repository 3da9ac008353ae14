"""Twin of spec.ops.selu.

torch's own gradient multiplies by the constant first, which overflows, so that it is not called.
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

_ALPHA, _SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
SCALE, FLOOR = tl.constexpr(_SCALE), tl.constexpr(_ALPHA * _SCALE)


@triton.jit
def _selu(x):
    return tl.where(x > 0, SCALE * x, FLOOR * expm1(x))


@triton.jit
def _vjp(x, g):
    return tl.where(x > 0, SCALE, FLOOR * tl.exp(x)) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("selu", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Scale what is positive, and bend the rest down; the input is saved."""
    return pointwise.value(_selu, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return scale g, times alpha e^x where the input is not positive."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Scale what is positive, and bend the rest down; the input is saved."""
    return torch.selu(x), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return scale g, times alpha e^x where the input is not positive."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    g = wide(cotangent)
    lower = wide(x).exp().mul_(_ALPHA * _SCALE).mul_(g)
    return (torch.where(x > 0, g * _SCALE, lower).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("selu", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
