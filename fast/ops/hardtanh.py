"""Twin of spec.ops.hardtanh.

torch's own gradient at NaN depends on whether a vector or a tail holds it, so it is not called.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import with_attributes
from fast.kernels.page import Gradients, Saved


@triton.jit
def _hardtanh(x, lo, hi):
    # Written so, a NaN survives.
    return tl.where(x < lo, lo, tl.where(x > hi, hi, x))


@triton.jit
def _vjp(x, g, lo, hi):
    return tl.where((x > lo) & (x < hi), g, 0.0)


def check(x: Tensor, *, lo: float = -1.0, hi: float = 1.0) -> None:
    """Refuse anything but a floating tensor, and bounds that are not finite and in order (C1)."""
    checks.floats("hardtanh", x)
    if not -math.inf < lo < hi < math.inf:
        raise Rejected(f"hardtanh C1: lo and hi are finite, and lo < hi; got lo={lo!r}, hi={hi!r}")


def value(x: Tensor, *, lo: float = -1.0, hi: float = 1.0) -> tuple[Tensor, Saved]:
    """Replace what is beyond a bound by the bound; the input is saved."""
    bounds = float(lo), float(hi)
    return pointwise.value(_hardtanh, x, scalars=bounds), (x, *bounds)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g between the bounds, and 0 from them on."""
    x, *bounds = saved
    return pointwise.vjp(_vjp, (x,), cotangent, needs, scalars=tuple(bounds))


def aten_value(x: Tensor, *, lo: float = -1.0, hi: float = 1.0) -> tuple[Tensor, Saved]:
    """Replace what is beyond a bound by the bound; the input is saved."""
    # `clamp` would carry tangents at the bounds, where the rate is 0.
    return torch.nn.functional.hardtanh(x, lo, hi), (x, float(lo), float(hi))


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g between the bounds, and 0 from them on."""
    x, lo, hi = saved
    if not needs[0]:
        return (None,)
    return (torch.where((x > lo) & (x < hi), cotangent, 0.0),)


EXAMPLES = with_attributes(lo=-1.0, hi=1.0)
op = pointwise.op(
    "hardtanh",
    check,
    value,
    vjp,
    aten_value,
    aten_vjp,
    inputs=("x",),
    attributes={"lo": -1.0, "hi": 1.0},
)
