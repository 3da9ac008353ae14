"""Twin of spec.ops.neg.

Nothing is saved.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.mode import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _neg(x):
    # A sign by itself is 0 - x in Triton, which would take it from a zero.
    return x * -1.0


@triton.jit
def _vjp(g):
    return g * -1.0


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("neg", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Change the sign; nothing is saved."""
    return pointwise.value(_neg, x), ()


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return -g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Change the sign; nothing is saved."""
    return torch.neg(x), ()


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return -g."""
    return (torch.neg(cotangent) if needs[0] else None,)


EXAMPLES = unary
op = pointwise.op("neg", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
