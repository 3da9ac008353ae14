"""Twin of spec.ops.add.

The gradients are the cotangent itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast import _checks, _pointwise
from fast._device import tl, triton  # noqa: F401 (the interpreter needs to see tl here)
from fast._examples import binary
from fast._op import Gradients, Op, Saved


@triton.jit
def _add(x, y):
    return x + y


def check(x: Tensor, y: Tensor) -> None:
    """Refuse shapes that differ (C1)."""
    _checks.pair("add", x, y)


def value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Add entry by entry."""
    return _pointwise.value(_add, x, y), ()


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Hand the cotangent to both sides."""
    return cotangent if needs[0] else None, cotangent if needs[1] else None


def aten_value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Add entry by entry."""
    return torch.add(x, y), ()


aten_vjp = vjp


EXAMPLES = binary
op = Op("add", check, value, vjp, aten_value, aten_vjp, inputs=("x", "y"))
