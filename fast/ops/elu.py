"""Twin of spec.ops.elu.

The input is saved: a negative alpha changes the sign, so that the output does not tell it.
torch's own gradient multiplies by alpha first, which overflows, and lets that of NaN pass, so that
it is not called.
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
from fast.kernels.examples import with_attributes
from fast.kernels.page import Gradients, Saved


@triton.jit
def _elu(x, alpha):
    return tl.where(x > 0, x, alpha * expm1(x))


@triton.jit
def _vjp(x, g, alpha):
    return tl.where(x > 0, g, alpha * tl.exp(x) * g)


def check(x: Tensor, *, alpha: float = 1.0) -> None:
    """Refuse anything but a floating tensor, and an alpha that is not finite (C1)."""
    checks.floats("elu", x)
    checks.finite("elu C1", alpha=alpha)


def value(x: Tensor, *, alpha: float = 1.0) -> tuple[Tensor, Saved]:
    """Bend what is not positive down to -alpha; the input is saved."""
    return pointwise.value(_elu, x, scalars=(float(alpha),)), (x, float(alpha))


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g, times alpha e^x where the input is not positive."""
    x, alpha = saved
    return pointwise.vjp(_vjp, (x,), cotangent, needs, scalars=(alpha,))


def aten_value(x: Tensor, *, alpha: float = 1.0) -> tuple[Tensor, Saved]:
    """Bend what is not positive down to -alpha; the input is saved."""
    return torch.nn.functional.elu(x, alpha), (x, float(alpha))


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g, times alpha e^x where the input is not positive."""
    x, alpha = saved
    if not needs[0]:
        return (None,)
    lower = wide(x).exp().mul_(alpha).mul_(cotangent)
    return (torch.where(x > 0, cotangent, lower.to(x.dtype)),)


EXAMPLES = with_attributes(alpha=0.25)
op = pointwise.op(
    "elu",
    check,
    value,
    vjp,
    aten_value,
    aten_vjp,
    inputs=("x",),
    attributes={"alpha": 1.0},
)
