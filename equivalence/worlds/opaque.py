"""Opaque stand-ins: exp, log, tanh, erf, cos, sin, pi and roots in the world of exact fractions.

No fraction is the exponential of 1, but the structural laws of the book never ask for it: they use
only that the derivative of exp is exp's own value, that of tanh is 1 - tanh^2, that of log is 1/x,
that of sqrt is 1 / (2 sqrt), that of sin is cos, that of cos is -sin and that of erf is
2 / sqrt(pi) exp(-x^2). A page may state one function's derivative by another, so what is equal on
paper is equal here: e^-x is 1 / e^x, tanh is what e^x makes of it, sin^2 + cos^2 is 1, expm1 is
exp - 1, and log1p the logarithm of 1 + x.
A power that is written as e^(c ln x) asks for more, that e^(a + b) is e^a e^b, and is refused.
So any fixed table of rational values will do, and the laws then hold exactly, with no rounding to
argue about.  That exp really is exp is a matter for balls and for the notes.

Where the truth is a fraction the stand-in is the truth: exp(0), log(1), tanh(0), erf(0), cos(0),
sin(0), and the root of every square of a fraction.  Elsewhere exp and sqrt are positive, and tanh,
erf, cos and sin lie strictly between -1 and 1.

>>> from spec.scalar import exp, sqrt
>>> with opaque():
...     exp(Fraction(5)) == exp(Fraction(5)) > 0, sqrt(Fraction(9, 4))
(True, Fraction(3, 2))
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from equivalence.cases.domains import NoFraction
from spec import scalar
from spec.scalar import OpenFunction

Rule = Callable[[Fraction], Fraction]

EXACT_TYPES = (Fraction, int)
"""The types of the exact world."""


def _scramble(name: str, x: Fraction) -> int:
    """Return a number that depends on name and x alone, and looks like no formula."""
    return zlib.crc32(f"{name} {x.numerator}/{x.denominator}".encode())


def _positive(function: OpenFunction, x: Fraction) -> Fraction:
    """Return a small positive fraction, so that failing cases stay readable."""
    choice = _scramble(function.name, x)
    return Fraction(choice % 29 + 1, choice // 29 % 7 + 1)


def _exp(x: Fraction) -> Fraction:
    if x == 0:
        return Fraction(1)
    above = 1 + _positive(scalar.exp, Fraction(abs(x)))
    return above if x > 0 else 1 / above


def _tanh(x: Fraction) -> Fraction:
    e, back = _exp(x), _exp(-x)
    return (e - back) / (e + back)


def _log(x: Fraction) -> Fraction:
    _require("log", x > 0, x, "numbers > 0")
    sign = 1 if x > 1 else -1
    return Fraction(0) if x == 1 else Logarithm(sign * _positive(scalar.log, Fraction(x)))


class Logarithm(Fraction):
    """A multiple of a logarithm, which the stand-in of exp must not take for any other number."""

    def __mul__(self, other: object) -> Any:
        """Stay a logarithm."""
        if not isinstance(other, EXACT_TYPES):
            return NotImplemented
        return Logarithm(Fraction(self) * other)

    __rmul__ = __mul__

    def __neg__(self) -> Logarithm:
        """Stay a logarithm."""
        return Logarithm(-Fraction(self))


def _exp_of_logarithm(x: Logarithm) -> Fraction:
    raise NoFraction(
        f"the stand-in of exp knows no power: e^(c ln x) obeys the laws only as e^(a + b) is "
        f"e^a e^b; got {x}"
    )


def _odd(function: OpenFunction) -> Rule:
    """Return a stand-in strictly between -1 and 1, of the sign of its argument."""

    def rule(x: Fraction) -> Fraction:
        magnitude = _positive(function, Fraction(abs(x)))
        sign = (x > 0) - (x < 0)
        return sign * magnitude / (magnitude + 1)

    return rule


def _half_tangent(x: Fraction) -> Fraction:
    """Return the tangent of x / 2, an odd fraction, of which cosine and sine are made."""
    if x == 0:
        return Fraction(0)
    magnitude = _positive(scalar.sin, Fraction(abs(x))) + Fraction(1, 31)
    sign = 1 if _scramble("sign of sin", Fraction(abs(x))) % 2 else -1
    return magnitude * (sign if x > 0 else -sign)


def _cos(x: Fraction) -> Fraction:
    t = _half_tangent(x)
    return (1 - t * t) / (1 + t * t)


def _sin(x: Fraction) -> Fraction:
    t = _half_tangent(x)
    return 2 * t / (1 + t * t)


def _pi_like(x: Fraction) -> Fraction:
    return Fraction(22, 7)


def _sqrt(x: Fraction) -> Fraction:
    _require("sqrt", x >= 0, x, "numbers >= 0")
    x = Fraction(x)
    root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
    return root if root * root == x else _positive(scalar.sqrt, x)


def _require(name: str, inside: bool, x: Fraction, domain: str) -> None:
    if not inside:
        raise NoFraction(f"the stand-in of {name} accepts {domain}; got {x}")


STAND_INS: tuple[tuple[OpenFunction, Rule], ...] = (
    (scalar.exp, _exp),
    (scalar.log, _log),
    (scalar.tanh, _tanh),
    (scalar.erf, _odd(scalar.erf)),
    (scalar.expm1, lambda x: _exp(x) - 1),
    (scalar.log1p, lambda x: _log(1 + x)),
    (scalar.sqrt, _sqrt),
    (scalar.cos, _cos),
    (scalar.sin, _sin),
    (scalar.pi_like, _pi_like),
)


@contextmanager
def opaque() -> Iterator[None]:
    """Install the stand-ins in the exact world, and restore what was there on leaving."""
    before = [
        (function, kind, function.replaced(kind, rule))
        for function, rule in STAND_INS
        for kind in EXACT_TYPES
    ]
    before.append((scalar.exp, Logarithm, scalar.exp.replaced(Logarithm, _exp_of_logarithm)))
    try:
        yield
    finally:
        for function, kind, rule in reversed(before):
            function.replaced(kind, rule)
