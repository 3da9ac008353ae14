"""Twin of spec.ops.detach.

The output is fresh storage: no buffer has two owners.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Op, Saved


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("detach", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Copy x."""
    return pointwise.copy(x), ()


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Answer zero to every cotangent."""
    if not needs[0]:
        return (None,)
    return (torch.zeros_like(cotangent, memory_format=torch.contiguous_format),)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Copy x, without the tangent that it may carry."""
    return x.detach().clone(memory_format=torch.contiguous_format), ()


aten_vjp = vjp


EXAMPLES = unary
op = Op("detach", check, value, vjp, aten_value, aten_vjp, inputs=("x",), stops_gradients=True)
