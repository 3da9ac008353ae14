"""Twin of spec.ops.log_sigmoid."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import log1p, logistic, shrunk
from fast.kernels.examples import unary
from fast.kernels.page import Gradients, Saved
from fast.ops.sigmoid import logistic_wide, shrunk_wide


@triton.jit
def _log_sigmoid(x):
    return tl.where(x < 0, x, 0.0) - log1p(shrunk(x))


@triton.jit
def _vjp(x, g):
    return logistic(-x) * g


def check(x: Tensor) -> None:
    """Refuse anything but a floating tensor."""
    checks.floats("log_sigmoid", x)


def value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the logarithm of the logistic curve; the input is saved."""
    return pointwise.value(_log_sigmoid, x), (x,)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return sigmoid(-x) g."""
    return pointwise.vjp(_vjp, saved, cotangent, needs)


def aten_value(x: Tensor) -> tuple[Tensor, Saved]:
    """Take the logarithm of the logistic curve, computed wide; the input is saved."""
    x32 = wide(x)
    return (torch.where(x32 < 0, x32, 0.0) - shrunk_wide(x32).log1p_()).to(x.dtype), (x,)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return sigmoid(-x) g, computed wide."""
    (x,) = saved
    if not needs[0]:
        return (None,)
    return ((logistic_wide(-wide(x)) * wide(cotangent)).to(x.dtype),)


EXAMPLES = unary
op = pointwise.op("log_sigmoid", check, value, vjp, aten_value, aten_vjp, inputs=("x",))
