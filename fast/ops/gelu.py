"""Twin of spec.ops.gelu.

Each of the two ways has kernels of its own; the input is saved. torch's own value is off by far
where the gate nearly closes, and its own gradient by erf has an error of 1.5e-7 (Abramowitz and
Stegun, 7.1.26), so that the ATen twin writes both out, and saves the gate that erf makes, since
torch's erf takes most of the time. torch's own gradient by tanh is called.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.elementwise.functions import erf, tanh
from fast.kernels.examples import with_attributes
from fast.kernels.page import Gradients, Saved
from fast.ops.erf import SLOPE

WAYS = ("none", "tanh")
_backward = torch.ops.aten.gelu_backward.default

_ROOT, _RATE, _CUBIC = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715
ROOT, RATE, CUBIC = tl.constexpr(_ROOT), tl.constexpr(_RATE), tl.constexpr(_CUBIC)
TRIPLE = tl.constexpr(3 * _CUBIC)


@triton.jit
def _exactly(x):
    return 0.5 * x * (1.0 + erf(x * ROOT))


@triton.jit
def _exactly_vjp(x, g):
    u = x * ROOT
    gate = 0.5 * (1.0 + erf(u))
    return (gate + 0.5 * x * (tl.exp(-(u * u)) * SLOPE * ROOT)) * g


@triton.jit
def _by_tanh(x):
    return 0.5 * x * (1.0 + tanh((x + x * x * x * CUBIC) * RATE))


@triton.jit
def _by_tanh_vjp(x, g):
    t = tanh((x + x * x * x * CUBIC) * RATE)
    slope = (1.0 + x * x * TRIPLE) * RATE
    return (0.5 * (1.0 + t) + 0.5 * x * ((1.0 - t * t) * slope)) * g


def check(x: Tensor, *, approximate: str = "none") -> None:
    """Refuse anything but a floating tensor, and another way than the two (C1)."""
    checks.floats("gelu", x)
    if approximate not in WAYS:
        raise Rejected(f"gelu C1: approximate is one of {WAYS}; got {approximate!r}")


def value(x: Tensor, *, approximate: str = "none") -> tuple[Tensor, Saved]:
    """Gate the input; it is saved."""
    kernel = _by_tanh if approximate == "tanh" else _exactly
    return pointwise.value(kernel, x), (x, approximate)


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return the gate, and half of x times its rate, times g."""
    x, approximate = saved
    kernel = _by_tanh_vjp if approximate == "tanh" else _exactly_vjp
    return pointwise.vjp(kernel, (x,), cotangent, needs)


def aten_value(x: Tensor, *, approximate: str = "none") -> tuple[Tensor, Saved]:
    """Gate the input, computed wide; it is saved, and beside it the gate by erf."""
    x32 = wide(x)
    if approximate == "tanh":
        return _inner(x32).tanh_().add_(1).mul_(0.5).mul_(x32).to(x.dtype), (x, None)
    gate = (x32 * _ROOT).erf_().add_(1).mul_(0.5)
    return (gate * x32).to(x.dtype), (x, gate)


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return the gate, and half of x times its rate, times g, computed wide.

    The rate of erf(u), where u is x sqrt(1/2), is taken by u: x times the root is u again.
    """
    x, gate = saved
    if not needs[0]:
        return (None,)
    x32, g32 = wide(x), wide(cotangent)
    if gate is None:
        return (_backward(g32, x32, approximate="tanh").to(x.dtype),)
    u = x32 * _ROOT
    bell = (u * u).neg_().exp_()
    return (gate.addcmul(u, bell, value=0.5 * SLOPE.value).mul_(g32).to(x.dtype),)


def _inner(x: Tensor) -> Tensor:
    return (x + _CUBIC * (x * x * x)).mul_(_RATE)


MOST_KERNELS = 8
"""Those of two functions: each way has its own, for either approximation."""

EXAMPLES = with_attributes(approximate="none")
# The gate is saved, so that a tape has to weigh what is kept.
op = replace(
    pointwise.op(
        "gelu",
        check,
        value,
        vjp,
        aten_value,
        aten_vjp,
        inputs=("x",),
        attributes={"approximate": "none"},
    ),
    plain=False,
)
