"""Twin of spec.ops.scale.

Nothing but the number is saved: the gradient is the value of the cotangent.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import with_attributes
from fast.kernels.page import REQUIRED, Gradients, Saved


@triton.jit
def _scale(x, c):
    return x * c


def check(x: Tensor, *, c: float) -> None:
    """Refuse anything but a floating tensor, and a number that is not finite (C1)."""
    checks.floats("scale", x)
    checks.finite("scale C1", c=c)


def value(x: Tensor, *, c: float) -> tuple[Tensor, Saved]:
    """Multiply by the number, which is saved."""
    return pointwise.value(_scale, x, scalars=(float(c),)), (float(c),)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return c g."""
    return pointwise.vjp(_scale, (), cotangent, needs, scalars=saved)


def aten_value(x: Tensor, *, c: float) -> tuple[Tensor, Saved]:
    """Multiply by the number, which is saved."""
    return torch.mul(x, float(c)), (float(c),)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return c g."""
    return (torch.mul(cotangent, saved[0]) if needs[0] else None,)


EXAMPLES = with_attributes(c=0.5)
op = pointwise.op(
    "scale",
    check,
    value,
    vjp,
    aten_value,
    aten_vjp,
    inputs=("x",),
    attributes={"c": REQUIRED},
)
