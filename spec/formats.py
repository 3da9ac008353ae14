"""Chapter 18. Formats: which numbers a machine can hold, and how a number is rounded to one.

Python's integers and decimals carry elementary functions to as many digits as a rounding needs.

>>> BINARY32.round(Fraction(1, 3)), BF16.unit_roundoff
(Fraction(11184811, 33554432), Fraction(1, 256))
>>> float(BINARY32.round(turned(Fraction(1), 0))), float(BINARY32.round(pi(64)))
(0.8414709568023682, 3.1415927410125732)
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

Number = Fraction | float
"""An exact number, or one of the floats inf, -inf, nan, -0.0."""

Digits = Callable[[Fraction], Fraction]
"""A function that is no fraction, to so many digits that every format rounds it rightly."""

DIGITS = decimal.Context(prec=40, Emin=-9_999_999, Emax=9_999_999)


@dataclass(frozen=True)
class Format:
    """A binary floating-point format of IEEE 754's kind.

    precision counts the significand's bits, the hidden one included; max_exponent is the exponent
    of the largest finite number.
    """

    name: str
    precision: int
    max_exponent: int

    @property
    def unit_roundoff(self) -> Fraction:
        """The largest relative error of one rounding to nearest: 2^-precision."""
        return Fraction(1, 2**self.precision)

    @property
    def smallest_exponent(self) -> int:
        """The exponent of the last bit of every subnormal."""
        return 2 - self.max_exponent - self.precision

    def round(self, x: Number) -> Number:
        """Return the nearest number of the format, ties to even; beyond the largest, an infinity.

        >>> BINARY32.round(Fraction(1, 10)) == Fraction(13421773, 2**27)
        True
        """
        if isinstance(x, float):
            return x
        if x == 0:
            return Fraction(0)
        magnitude = abs(x)
        exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        if magnitude < _power(exponent):
            exponent -= 1
        last = _power(max(exponent - self.precision + 1, self.smallest_exponent))
        rounded = round(magnitude / last) * last
        if rounded >= _power(self.max_exponent + 1):
            return math.inf if x > 0 else -math.inf
        if rounded == 0:
            return Fraction(0) if x > 0 else -0.0
        return rounded if x > 0 else -rounded


BINARY32 = Format("fp32", 24, 127)
BF16 = Format("bf16", 8, 127)
FP16 = Format("fp16", 11, 15)


def _power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


@lru_cache(maxsize=64)
def pi(bits: int) -> Fraction:
    """Return pi, less than 2^-bits away: 16 arctan(1/5) - 4 arctan(1/239) (Machin)."""
    guarded = bits + 32

    def arctan(n: int) -> int:
        power = total = (1 << guarded) // n
        k = 1
        while power:
            power, k = power // (-n * n), k + 2
            total += power // k
        return total

    return Fraction(16 * arctan(5) - 4 * arctan(239), 2**guarded)


def error_function(x: Fraction) -> Fraction:
    """Return erf(x), less than 2^-250 relative away; beyond 20, where it is nearly 1, 2^-570 off.

    Reference: Abramowitz and Stegun, 7.1.5, in which terms up to 2^577 cancel.
    """
    if abs(x) > 20:
        return (1 - Fraction(1, 2**570)) * (1 if x > 0 else -1)
    bits = 900
    y, k = round(x * x * 2**bits), 0
    term, total = 2**bits, 0
    while abs(term) > 1:
        total += term // (2 * k + 1)
        k += 1
        term = -term * y // (k * 2**bits)
    root = math.isqrt(round(pi(2 * bits) * 4**bits))
    return 2 * x * Fraction(total, root)


def turned(x: Fraction, quarters: int) -> Fraction:
    """Return sin(x + quarters pi / 2), less than 2^-280 away: sine for 0, cosine for 1."""
    bits = 300
    quarter = pi(bits + x.numerator.bit_length()) / 2
    away = round(x / quarter)
    rest, place = round((x - away * quarter) * 2**bits), (away + quarters) % 4
    # The series of sine has the odd powers of the rest, that of cosine the even ones.
    k = 1 - place % 2
    term, total = rest if k else 2**bits, 0
    while abs(term) > 1:
        total += term
        term = -term * rest * rest // ((k + 1) * (k + 2) * 4**bits)
        k += 2
    return Fraction(total if place < 2 else -total, 2**bits)


def _decimal(rule: Callable[[decimal.Decimal], decimal.Decimal]) -> Digits:
    def exact(x: Fraction) -> Fraction:
        with decimal.localcontext(DIGITS):
            return _to_fraction(rule(decimal.Decimal(x.numerator) / x.denominator))

    return exact


def _to_fraction(x: decimal.Decimal) -> Fraction:
    """Convert exactly, or to a stand-in that every format rounds alike where it is astronomical."""
    if x.is_zero() or x.adjusted() < -400:
        return Fraction(0)
    if x.adjusted() > 400:
        return Fraction(10) ** 400 * (1 if x > 0 else -1)
    return Fraction(x)


def _decimal_tanh(x: decimal.Decimal) -> decimal.Decimal:
    """Return 1 - 2 / (e^2x + 1), with the digits that its cancellation near 0 costs."""
    with decimal.localcontext() as context:
        context.prec += max(0, -2 * x.adjusted())
        power = (2 * _within_reach(x)).exp()
        return (power - 1) / (power + 1)


def _decimal_expm1(x: decimal.Decimal) -> decimal.Decimal:
    with decimal.localcontext() as context:
        context.prec += max(0, -2 * x.adjusted())
        return _within_reach(x).exp() - 1


def _decimal_log1p(x: decimal.Decimal) -> decimal.Decimal:
    with decimal.localcontext() as context:
        context.prec += max(0, -2 * x.adjusted())
        return (1 + x).ln()


def _within_reach(x: decimal.Decimal) -> decimal.Decimal:
    """Return x, or where exp and tanh are beyond every format already, a number closer to 0."""
    reach = decimal.Decimal(100_000)
    return max(-reach, min(x, reach))


TO_DIGITS: Mapping[str, Digits] = {
    "exp": _decimal(lambda x: _within_reach(x).exp()),
    "expm1": _decimal(_decimal_expm1),
    "log": _decimal(lambda x: x.ln()),
    "log1p": _decimal(_decimal_log1p),
    "tanh": _decimal(_decimal_tanh),
    "erf": error_function,
    "sin": lambda x: turned(x, 0),
    "cos": lambda x: turned(x, 1),
}
"""Elementary functions of fractions by name, to 40 significant digits, or 80."""
