"""Twin of spec.ops.safe_log."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import logistic, softened
from fast.kernels.examples import with_attributes
from fast.kernels.page import Gradients, Saved
from fast.ops.sigmoid import logistic_wide
from fast.ops.softplus import softened_wide


@triton.jit
def _safe_log(x, eps):
    return tl.log(softened(x) + eps)


@triton.jit
def _vjp(x, g, eps):
    return tl.div_rn(g, softened(x) + eps) * logistic(x)


def check(x: Tensor, *, eps: float = 1e-6) -> None:
    """Refuse anything but a floating tensor, and an eps that is not finite and positive (C1)."""
    checks.floats("safe_log", x)
    if not 0 < eps < math.inf:
        raise Rejected(f"safe_log C1: eps is finite and > 0; got eps={eps!r}")


def value(x: Tensor, *, eps: float = 1e-6) -> tuple[Tensor, Saved]:
    """Take the logarithm of softplus, lifted by eps; the input is saved."""
    return pointwise.value(_safe_log, x, scalars=(float(eps),)), (x, float(eps))


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / (softplus(x) + eps) times sigmoid(x)."""
    x, eps = saved
    return pointwise.vjp(_vjp, (x,), cotangent, needs, scalars=(eps,))


def aten_value(x: Tensor, *, eps: float = 1e-6) -> tuple[Tensor, Saved]:
    """Take the logarithm of softplus, lifted by eps, computed wide; the input is saved."""
    return softened_wide(wide(x)).add_(eps).log_().to(x.dtype), (x, float(eps))


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return g / (softplus(x) + eps) times sigmoid(x), computed wide."""
    x, eps = saved
    if not needs[0]:
        return (None,)
    x32 = wide(x)
    return ((wide(cotangent) / (softened_wide(x32) + eps) * logistic_wide(x32)).to(x.dtype),)


EXAMPLES = with_attributes(eps=1e-6)
op = pointwise.op(
    "safe_log",
    check,
    value,
    vjp,
    aten_value,
    aten_vjp,
    inputs=("x",),
    attributes={"eps": 1e-6},
)
