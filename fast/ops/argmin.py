"""Twin of spec.ops.argmin: the kernel of argmax, on opposites."""

from __future__ import annotations

import torch
from torch import Tensor

from fast.kernels.page import Op
from fast.ops.argmax import EXAMPLES as of_argmax
from fast.ops.argmax import Places, aten_vjp, check_for, places, vjp


def check(x: Tensor, *, axis: int | None = None, keepdims: bool = False) -> None:
    """Refuse an axis out of range (C1), or one without entries (C2)."""
    check_for("argmin", x, axis)


def value(x: Tensor, *, axis: int | None = None, keepdims: bool = False) -> Places:
    """Find the place of the smallest; nothing is saved."""
    return places(x, axis, keepdims, least=True)


def aten_value(x: Tensor, *, axis: int | None = None, keepdims: bool = False) -> Places:
    """Find the place of the smallest; nothing is saved."""
    return (torch.argmin(x, axis, keepdims),), ()


EXAMPLES = of_argmax
op = Op(
    "argmin", check, value, vjp, aten_value, aten_vjp, inputs=("x",),
    attributes={"axis": None, "keepdims": False}, stops_gradients=True, indices=(0,),
)  # fmt: skip
