"""Twin of spec.ops.pow.

The exponent is no constant of the kernel, so that one kernel raises to all powers: the digits of
the exponent, which the host reads, choose what it multiplies. torch's own rounds the exponent to
the dtype of its tensor, so that 16 bits are widened first. The input is saved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from fast.device.dtypes import wide
from fast.device.mode import tl, triton
from fast.kernels import checks
from fast.kernels.elementwise import pointwise
from fast.kernels.examples import with_attributes
from fast.kernels.page import REQUIRED, Gradients, Saved

LONGEST = 64
"""The largest power that is written out as a product."""

DIGITS = 7
"""The binary digits of the whole numbers up to there."""


@triton.jit
def _raised(x, sign, half, exponent, d0, d1, d2, d3, d4, d5, d6):
    # Minus infinity has the powers that no negative number has, without its sign.
    x = tl.where((half != 0) & (tl.abs(x) == float("inf")), tl.abs(x), x)
    z, power = tl.where(d0 > 0, x, 1.0), x
    power = power * power
    z = tl.where(d1 > 0, z * power, z)
    power = power * power
    z = tl.where(d2 > 0, z * power, z)
    power = power * power
    z = tl.where(d3 > 0, z * power, z)
    power = power * power
    z = tl.where(d4 > 0, z * power, z)
    power = power * power
    z = tl.where(d5 > 0, z * power, z)
    z = tl.where(d6 > 0, z * (power * power), z)
    z = tl.where(half > 0, z * tl.sqrt_rn(x), z)
    # Of a large odd power the product is x alone, and of one that is not whole there is none.
    e = tl.exp(exponent * tl.log(tl.where(half < 0, x, tl.abs(x))))
    e = tl.where(exponent == 0, 1.0, e)
    return tl.where(sign < 0, tl.div_rn(e, z), z * e)


@triton.jit
def _vjp(x, g, sign, half, exponent, d0, d1, d2, d3, d4, d5, d6, c):
    rate = c * _raised(x, sign, half, exponent, d0, d1, d2, d3, d4, d5, d6)
    # A zero cotangent is absorbing, also where the rate is infinite; so is the power 0.
    return tl.where((g == 0) | (c == 0), 0.0, rate * g)


def _power(c: Fraction) -> tuple[float, ...]:
    """Say how x^c is computed: a product or 1 over it, whether with a root (1) or with no power of
    a negative number (-1), the exponent of e, and the binary digits of what is multiplied."""
    sign = -1.0 if c < 0 else 1.0
    if (2 * c).denominator == 1 and abs(c) <= LONGEST:
        return sign, float(c.denominator == 2), 0.0, *_digits(int(abs(c)))
    if c.denominator != 1:
        return 1.0, -1.0, float(c), *_digits(0)
    odd = int(c) % 2
    return (sign if odd else 1.0), 0.0, float(c - int(sign) * odd), *_digits(odd)


def _digits(whole: int) -> tuple[float, ...]:
    return tuple(float(whole >> k & 1) for k in range(DIGITS))


def check(x: Tensor, *, c: float) -> None:
    """Refuse anything but a floating tensor, and a power that is not finite (C1)."""
    checks.floats("pow", x)
    checks.finite("pow C1", c=c)


def value(x: Tensor, *, c: float) -> tuple[Tensor, Saved]:
    """Raise the input, which is saved, to a power."""
    return pointwise.value(_raised, x, scalars=_power(Fraction(c))), (x, float(c))


def vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return c x^(c - 1) g, or 0 where g or c is 0."""
    x, c = saved
    power = _power(Fraction(c) - 1) if c else _power(Fraction(0))
    return pointwise.vjp(_vjp, (x,), cotangent, needs, scalars=(*power, c))


def _raised_wide(x: Tensor, c: Fraction) -> Tensor:
    """Raise to a power, in a tensor of its own."""
    x32, rounded = wide(x), float(c)
    if c.denominator == 1 and rounded != c:
        # Beyond 2^53 a float is even, and an odd power has the sign of its base.
        raised = x32.abs().pow(rounded)
        return raised.copysign(x32) if int(c) % 2 else raised
    if abs(c) == Fraction(1, 2):
        # torch takes a root then, which minus infinity has not.
        x32 = torch.where(x32 == -math.inf, math.inf, x32)
    return x32.pow(rounded)


def aten_value(x: Tensor, *, c: float) -> tuple[Tensor, Saved]:
    """Raise the input, which is saved, to a power."""
    return _raised_wide(x, Fraction(c)).to(x.dtype), (x, float(c))


def aten_vjp(saved: Saved, cotangent: Tensor, needs: Sequence[bool]) -> Gradients:
    """Return c x^(c - 1) g, computed wide, or 0 where g or c is 0."""
    x, c = saved
    if not needs[0]:
        return (None,)
    if c == 0:
        return (torch.zeros_like(cotangent),)
    rate = _raised_wide(x, Fraction(c) - 1).mul_(c)
    return (torch.where(cotangent == 0, 0.0, rate * cotangent).to(x.dtype),)


EXAMPLES = with_attributes(c=3.0)
op = pointwise.op(
    "pow",
    check,
    value,
    vjp,
    aten_value,
    aten_vjp,
    inputs=("x",),
    attributes={"c": REQUIRED},
)
