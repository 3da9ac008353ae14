"""Chapter 2. The two worlds that need no library: floats and exact fractions.

Floats are IEEE binary64 with its infinities and NaN, where Python's own functions would raise.
Fractions are exact, and refuse what no fraction is; the laws of this book are tested in them.

>>> from spec.scalar import divide, exp, less, log, select, sqrt
>>> divide(1.0, 0.0), log(0.0), exp(1000.0)
(inf, -inf, inf)
>>> sqrt(Fraction(4, 9)), exp(Fraction(0))
(Fraction(2, 3), Fraction(1, 1))
>>> select(less(1.0, 2.0), "smaller", "not smaller")
'smaller'
"""

# This file is longer than the guide because the worlds of Python's own numbers stand together.
from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeGuard

from spec.scalar import (
    CONSTANTS,
    OpenFunction,
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
    kronecker,
    less,
    lift,
    log,
    log1p,
    maximum,
    pi_like,
    select,
    sin,
    sqrt,
    square,
    stop,
    tanh,
    zero_like,
)

Number = int | float | Fraction
"""A number as programs and callers write it, before it enters any world."""


def is_number(x: object) -> TypeGuard[Number]:
    """Tell whether x is a number as programs write it; a truth value is none."""
    return isinstance(x, (int, float, Fraction)) and not isinstance(x, bool)


def _or_infinite(function: Callable[[float], float]) -> Callable[[float], float]:
    def rule(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return math.inf

    return rule


def _from_a_pole(function: Callable[[float], float], pole: int) -> Callable[[float], float]:
    """Return a logarithm: -inf at its pole, and NaN below."""
    return lambda x: function(x) if x > pole else -math.inf if x == pole else math.nan


def _of_an_angle(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: function(x) if math.isfinite(x) else math.nan


exp.register(float)(_or_infinite(math.exp))
expm1.register(float)(_or_infinite(math.expm1))
log.register(float)(_from_a_pole(math.log, 0))
log1p.register(float)(_from_a_pole(math.log1p, -1))
tanh.register(float)(math.tanh)
erf.register(float)(math.erf)
cos.register(float)(_of_an_angle(math.cos))
sin.register(float)(_of_an_angle(math.sin))


@sqrt.register(float)
def _sqrt(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


@pi_like.register(float)
def _pi_like(x: float) -> float:
    return math.pi


@divide.register(float)
def _divide(x: float, y: float) -> float:
    if y != 0 or math.isnan(x):
        return x / y if y != 0 else math.nan
    if x == 0:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


@maximum.register(float)
def _maximum(x: float, y: float) -> float:
    if x != x or y != y:
        return math.nan
    return float(_joined(y, x) if x < y else _joined(x, y))


@lift.register(float)
def _lift(like: float, constant: Fraction) -> float:
    try:
        return float(constant)
    except OverflowError:
        # To the nearest, as every other number: what lies beyond the largest float is infinite.
        return math.inf if constant > 0 else -math.inf


class NoFraction(ArithmeticError):
    """A result that ints and Fractions cannot hold: the reason, and what to write instead."""

    def __init__(self, reason: str, remedy: str) -> None:
        """Keep the reason apart: an op names the numbers that its caller wrote, not inner ones."""
        super().__init__(f"{reason} {remedy}")
        self.reason = reason


def _no_fraction(name: str, x: Fraction, accepted: str) -> NoFraction:
    """Say that a result is no fraction, and how the argument is written in floats."""
    near = _lift(0.0, Fraction(x))
    shown = str(x) if len(str(x)) <= _LONGEST else f"about {near:.6g}"
    return NoFraction(
        f"{name}({shown}) is no fraction, and ints and Fractions are exact; accepted there: "
        f"{accepted}.",
        f"Write {near!r} to compute in floats.",
    )


_LONGEST = 16
"""How many characters of a fraction are shown."""


EXACT_POINTS: Mapping[OpenFunction, tuple[int, int]] = {
    exp: (0, 1),
    log: (1, 0),
    cos: (0, 1),
    **dict.fromkeys((tanh, sin, expm1, log1p, erf), (0, 0)),
}
"""The one fraction at which a function is a fraction, and what it is there."""


def _exact_only(name: str, argument: int, result: int) -> Callable[[Fraction], Fraction]:
    def rule(x: Fraction) -> Fraction:
        if x == argument:
            return Fraction(result)
        raise _no_fraction(name, x, f"{name}({argument}) = {result}")

    return rule


for _function, _point in EXACT_POINTS.items():
    _function.register(Fraction, int)(_exact_only(_function.name, *_point))


@pi_like.register(Fraction, int)
def _no_pi(x: Fraction) -> Fraction:
    raise ArithmeticError(
        "pi is no fraction, and ints and Fractions are exact. Write a float, such as 1.0, to "
        "compute in floats."
    )


@sqrt.register(Fraction, int)
def _exact_root(x: Fraction) -> Fraction:
    x = Fraction(x)
    if x >= 0:
        root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
        if root * root == x:
            return root
    raise _no_fraction("sqrt", x, "squares of fractions")


@divide.register(Fraction, int)
def _exact_divide(x: Fraction, y: Fraction) -> Fraction:
    if y == 0:
        raise ZeroDivisionError(
            f"{x} / {y} is no fraction, and ints and Fractions are exact; accepted there: divisors "
            "other than 0. Write 0.0 to compute in floats, which have infinities."
        )
    return Fraction(x) / y


@lift.register(Fraction, int)
def _lift_exactly(like: Fraction, constant: Fraction) -> Fraction:
    return constant


@maximum.register(Fraction, int)
def _exact_maximum(x: Fraction, y: Fraction) -> Fraction:
    return y if x < y else x


@kronecker.register(int)
def _kronecker(i: int, j: int) -> int:
    return int(i == j)


_ORDERED = (float, Fraction, int)


@square.register(*_ORDERED)
def _square(x: Any) -> Any:
    return x * x


@absolute.register(*_ORDERED)
def _absolute(x: Any) -> Any:
    return abs(x)


@zero_like.register(*_ORDERED)
def _zero_like(x: Any) -> Any:
    return type(x)(0)


@less.register(*_ORDERED)
def _less(x: Any, y: Any) -> bool:
    return bool(x < y)


@equal.register(*_ORDERED)
def _equal(x: Any, y: Any) -> bool:
    return bool(x == y)


@is_zero.register(*_ORDERED)
def _is_zero(x: Any, _: object) -> bool:
    return bool(x == 0)


@is_nan.register(float)
def _is_nan(x: float, _: object) -> bool:
    return x != x


@select.register(bool)
def _select(truth: bool, x: Any, y: Any) -> Any:
    return _joined(x, y) if truth else _joined(y, x)


def _joined(chosen: Any, other: Any) -> Any:
    """Return what was chosen in the world of the other, which a constant would leave."""
    is_constant = type(chosen) in CONSTANTS and type(chosen) is not bool
    if is_constant and type(other) not in CONSTANTS and isinstance(other, tuple(lift.rules)):
        return lift(other, Fraction(chosen))
    return chosen


@in_bf16.register(object)
def _in_bf16(x: Any) -> Any:
    # Only a world whose numbers have a format rounds to another one.
    return x


@stop.register(object)
def _stop(x: Any) -> Any:
    # A world whose numbers carry derivatives registers how to forget them.
    return x
