"""Chapter 19. Rounded numbers: executable binary32, bfloat16 and binary16.

A `Rounded` is an exact number that its format can represent; every operation forms the exact result
and rounds it once, to nearest, ties to even.
Nothing here is emulated with wider floats: sums, products, quotients and roots are rounded from
exact fractions, and exp, log, tanh and their like from 40 digits at least (`spec.formats`).
So what this world computes is what the standard says, and a kernel can be laid beside it.

>>> one_third = Rounded(BF16, Fraction(1, 3))
>>> one_third, one_third + one_third + one_third
(Rounded(bf16, 0.333984375), Rounded(bf16, 1.0))
>>> Rounded(FP16, 60000) + 60000
Rounded(fp16, inf)

Assumed: these digits decide every rounding; a case that needs more would need a result within 1e-38
relative of a midpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from spec.formats import BF16, BINARY32, FP16, TO_DIGITS, Format, Number, pi
from spec.scalar import (
    Unary,
    absolute,
    cos,
    divide,
    equal,
    erf,
    exp,
    expm1,
    in_bf16,
    is_nan,
    is_zero,
    less,
    lift,
    log,
    log1p,
    maximum,
    pi_like,
    sin,
    sqrt,
    square,
    tanh,
    zero_like,
)

__all__ = ["BF16", "BINARY32", "FP16", "Format", "Rounded"]


class Rounded:
    """A number of a format; constants that meet it are rounded into the format first."""

    __slots__ = ("format", "number")

    def __init__(self, format: Format, number: Number | int) -> None:
        """Round a number into the format."""
        exact = number if isinstance(number, float) and _special(number) else Fraction(number)
        self.format = format
        self.number = format.round(exact)

    def __add__(self, other: Any) -> Rounded:
        """Add exactly, round once."""
        return _binary(self, other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Rounded:
        """Subtract exactly, round once."""
        return _binary(self, other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Rounded:
        """Subtract exactly, round once."""
        return _binary(self, other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Rounded:
        """Multiply exactly, round once."""
        return _binary(self, other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __neg__(self) -> Rounded:
        """Change the sign, exactly."""
        negated = -0.0 if self.number == 0 and not _negative(self) else -self.number
        return Rounded(self.format, Fraction(0) if _negative(self) and negated == 0 else negated)

    def __float__(self) -> float:
        """Return the number as binary64, exactly."""
        return float(self.number)

    def __eq__(self, other: object) -> bool:
        """Compare as IEEE does: NaN differs from itself, and the zeros are equal."""
        if not isinstance(other, Rounded):
            return NotImplemented
        return self.format == other.format and self.number == other.number

    def __hash__(self) -> int:
        """Hash format and number, as equality compares them."""
        return hash((self.format, self.number))

    def __repr__(self) -> str:
        """Show the format and the number."""
        return f"Rounded({self.format.name}, {float(self)!r})"


def _special(x: float) -> bool:
    return math.isinf(x) or math.isnan(x) or (x == 0 and math.copysign(1.0, x) < 0)


def _negative(x: Rounded) -> bool:
    return isinstance(x.number, float) and math.copysign(1.0, x.number) < 0


def _number(x: Any, format: Format) -> Number:
    if not isinstance(x, Rounded):
        return Rounded(format, x).number
    if x.format != format:
        raise TypeError(f"{format.name} and {x.format.name} do not mix; round one into the other")
    return x.number


def _binary(x: Any, y: Any, operate: Callable[[Any, Any], Any]) -> Rounded:
    format = x.format if isinstance(x, Rounded) else y.format
    a, b = _number(x, format), _number(y, format)
    if isinstance(a, float) or isinstance(b, float) or a == 0 or b == 0:
        # With a special operand, zeros and their signs included, binary64 is right for any format.
        special = operate(float(a), float(b))
        return Rounded(format, special if _special(special) else Fraction(special))
    return Rounded(format, operate(a, b))


@divide.register(Rounded)
def _divide(x: Any, y: Any) -> Rounded:
    return _binary(x, y, divide)


@maximum.register(Rounded)
def _maximum(x: Any, y: Any) -> Rounded:
    return _binary(x, y, maximum)


def _unary(rule: Unary, exact: Callable[[Fraction], Fraction]) -> None:
    @rule.register(Rounded)
    def rounded(x: Rounded) -> Rounded:  # pyright: ignore[reportUnusedFunction]
        plain = rule(float(x.number))
        # At a finite argument infinity is only binary64's overflow, and zero its underflow; -inf is
        # a pole.
        if isinstance(x.number, float) or x.number == 0 or not plain > -math.inf:
            return Rounded(x.format, plain)
        return Rounded(x.format, exact(Fraction(x.number)))


for _function in (exp, expm1, log, log1p, tanh, erf, sin, cos):
    _unary(_function, TO_DIGITS[_function.name])


@pi_like.register(Rounded)
def _pi_like(x: Rounded) -> Rounded:
    return Rounded(x.format, pi(80))


@sqrt.register(Rounded)
def _sqrt(x: Rounded) -> Rounded:
    if isinstance(x.number, float) or x.number <= 0:
        return Rounded(x.format, sqrt(float(x.number)))
    # 2^(2k) times the number has an integer root with more bits than the format keeps; the root's
    # sticky last bit tells an exact root from one that lies above it.
    scaled = x.number * 4 ** (x.format.precision + 200)
    root = math.isqrt(scaled.numerator // scaled.denominator)
    sticky = 0 if root * root == scaled else Fraction(1, 2)
    return Rounded(x.format, (root + sticky) / 2 ** (x.format.precision + 200))


@square.register(Rounded)
def _square(x: Rounded) -> Rounded:
    return x * x


@absolute.register(Rounded)
def _absolute(x: Rounded) -> Rounded:
    return -x if x.number < 0 or _negative(x) else x


@zero_like.register(Rounded)
def _zero_like(x: Rounded) -> Rounded:
    return Rounded(x.format, 0)


@lift.register(Rounded)
def _lift(like: Rounded, constant: Fraction) -> Rounded:
    return Rounded(like.format, constant)


@in_bf16.register(Rounded)
def _in_bf16(x: Rounded) -> Rounded:
    return Rounded(x.format, Rounded(BF16, x.number).number)


@less.register(Rounded)
def _less(x: Any, y: Any) -> bool:
    format = x.format if isinstance(x, Rounded) else y.format
    return _number(x, format) < _number(y, format)


@equal.register(Rounded)
def _equal(x: Any, y: Any) -> bool:
    format = x.format if isinstance(x, Rounded) else y.format
    return _number(x, format) == _number(y, format)


@is_zero.register(Rounded)
def _is_zero(x: Rounded, _: object) -> bool:
    return x.number == 0


@is_nan.register(Rounded)
def _is_nan(x: Rounded, _: object) -> bool:
    return x.number != x.number
