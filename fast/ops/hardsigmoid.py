"""Twin of spec.ops.hardsigmoid.

torch's own derivatives multiply by a sixth of single precision, in float64 too. So its gradient is
not called, and neither is its function where a tangent runs through it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import is_dual, wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _hardsigmoid(x):
    line = tl.div_rn(x + 3.0, 6.0)
    return tl.where(x < -3.0, 0.0, tl.where(x > 3.0, 1.0, line))


@triton.jit
def _vjp(x, g):
    return tl.where((x > -3.0) & (x < 3.0), tl.div_rn(g, 6.0), 0.0)


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("hardsigmoid", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Cut a line at 0 and 1; the input is saved."""
    return pointwise.value(_hardsigmoid, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / 6 between the kinks, and 0 elsewhere."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Cut a line at 0 and 1; the input is saved."""
    return line(x), (x,)


def line(x: Tensor) -> Tensor:
    """Cut a line at 0 and 1, with a tangent where x has one; NaN survives, and its rate is 0."""
    if not is_dual(x):
        return torch.nn.functional.hardsigmoid(x)
    flat = torch.nn.functional.hardsigmoid(x.detach())
    return torch.where((x > -3) & (x < 3), (wide(x) + 3) / 6, wide(flat)).to(x.dtype)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / 6 between the kinks, and 0 elsewhere."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    return (torch.where((x > -3) & (x < 3), cotangent / 6, 0.0),)


EXAMPLES = unary
op = pointwise.op("hardsigmoid", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
