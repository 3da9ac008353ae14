"""Twin of spec.ops.minimum.

The kernel asks for the instruction that propagates NaN. A NaN compares false with everything, so
in the gradients it is neither larger nor a tie, and passes the cotangent to both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import binary
from fast.kernels.page import Gradients, Saved


@triton.jit
def _minimum(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _vjp(x, y, g):
    share = tl.where(x == y, 0.5 * g, g)
    return tl.where(x > y, 0.0, share), tl.where(x < y, 0.0, share)


def check(x: Tensor, y: Tensor) -> None:
    """Refuse shapes that differ (C1)."""
    checks.pair("minimum", x, y)


def value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Take the smaller entry by entry; both inputs are saved."""
    return pointwise.value(_minimum, x, y), (x, y)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Send the cotangent to the smaller side, half of it to each at a tie."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor, y: Tensor) -> tuple[Tensor, Saved]:
    """Take the smaller entry by entry; both inputs are saved."""
    return torch.minimum(x, y), (x, y)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Send the cotangent to the smaller side, half of it to each at a tie."""
    x, y = saved
    share = torch.where(x == y, 0.5 * cotangent, cotangent)
    dx = share.masked_fill(x > y, 0) if needs[0] else None
    return dx, share.masked_fill_(x < y, 0) if needs[1] else None


EXAMPLES = binary
op = pointwise.op("minimum", check, value, vjp, aten_value, aten_vjp, inputs=("x", "y"))
