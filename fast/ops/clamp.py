"""Twin of spec.ops.clamp."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.integers import is_number
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import with_attributes
from fast.kernels.page import REQUIRED, Gradients, Saved


@triton.jit
def _clamp(x, lo, hi):
    # Written so, a NaN survives.
    return tl.where(x < lo, lo, tl.where(x > hi, hi, x))


@triton.jit
def _vjp(x, g, lo, hi):
    return tl.where((x >= lo) & (x <= hi), g, 0.0)


def check(x: Tensor, *, lo: float, hi: float) -> None:
    """Refuse anything but a floating tensor, and bounds that are not in order (C1)."""
    checks.floats("clamp", x)
    numbers = is_number(lo) and is_number(hi)
    if not (numbers and lo <= hi and lo < math.inf and hi > -math.inf):
        raise Rejected(
            "clamp C1: lo and hi are numbers, lo <= hi, lo < inf and hi > -inf; "
            f"got lo={lo!r}, hi={hi!r}"
        )


def value(x: Tensor, *, lo: float, hi: float) -> tuple[Tensor, Saved]:
    """Replace what is beyond a bound by the bound; the input is saved."""
    bounds = float(lo), float(hi)
    return pointwise.value(_clamp, x, scalars=bounds), (x, *bounds)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g from bound to bound, and 0 elsewhere."""
    x, *bounds = saved
    return pointwise.vjp(_vjp, (x,), cotangent, needs, scalars=tuple(bounds))


def aten_value(x: Tensor, *, lo: float, hi: float) -> tuple[Tensor, Saved]:
    """Replace what is beyond a bound by the bound; the input is saved."""
    return torch.clamp(x, lo, hi), (x, float(lo), float(hi))


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g from bound to bound, and 0 elsewhere."""
    x, lo, hi = saved
    if not needs[0]:
        return (None,)
    return (torch.where((x >= lo) & (x <= hi), cotangent, 0.0),)


EXAMPLES = with_attributes(lo=-1.0, hi=1.0)
op = pointwise.op(
    "clamp",
    check,
    value,
    vjp,
    aten_value,
    aten_vjp,
    inputs=("x",),
    attributes={"lo": REQUIRED, "hi": REQUIRED},
)
