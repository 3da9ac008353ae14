"""Certified balls: real numbers known to 256 bits, with a bound on what is not known.

A `Ball` holds a number that lies inside it for certain (python-flint's `arb`).
A comparison answers True or False only where that is certain, and `UNKNOWN` otherwise; `select` on
UNKNOWN returns the hull of both branches, so a result is right whatever the answer would have been.

>>> from spec.scalar import exp, less, select
>>> less(exp(ball(1)), ball(3))
True
>>> third = ball(Fraction(1, 3))
>>> select(less(third * 3, 1), ball(5), ball(7)).arb.contains(6)
True
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import flint

from spec import scalar

PRECISION = 256
"""Bits of a midpoint: more than four times what any format here has."""

# Balls are certified at any precision, so raising the precision of the process is harmless.
flint.ctx.prec = max(flint.ctx.prec, PRECISION)

Arb: TypeAlias = Any
"""python-flint's real ball, which has no type stubs."""

Constant = int | Fraction
NAN: Arb = flint.arb("nan")
PI: Arb = flint.arb.pi()


class Unknown:
    """The truth value of a question that the balls are too wide to answer."""

    __slots__ = ()

    def __bool__(self) -> bool:
        """Refuse to be read as True or False."""
        raise TypeError("a ball's truth value is unknown; read it with spec.scalar.select")

    def __repr__(self) -> str:
        """Show the name of the only instance."""
        return "UNKNOWN"


UNKNOWN = Unknown()
Truth = bool | Unknown


def arb(constant: Constant | float) -> Arb:
    """Return the ball of an exact constant: exact where it is dyadic, 2^-256 wide otherwise."""
    if isinstance(constant, Fraction):
        return flint.arb(flint.fmpq(constant.numerator, constant.denominator))
    return flint.arb(constant)


class Ball:
    """A real number inside a ball of python-flint."""

    __slots__ = ("arb",)

    def __init__(self, arb: Arb) -> None:
        """Hold a ball of python-flint."""
        self.arb = arb

    def __add__(self, other: Any) -> Ball:
        """Add; ints and fractions are exact constants."""
        return Ball(self.arb + _arb_of(other))

    def __sub__(self, other: Any) -> Ball:
        """Subtract; ints and fractions are exact constants."""
        return Ball(self.arb - _arb_of(other))

    def __rsub__(self, other: Any) -> Ball:
        """Subtract from an exact constant."""
        return Ball(_arb_of(other) - self.arb)

    def __mul__(self, other: Any) -> Ball:
        """Multiply; ints and fractions are exact constants."""
        return Ball(self.arb * _arb_of(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Ball:
        """Change the sign."""
        return Ball(-self.arb)

    def __repr__(self) -> str:
        """Show fifteen digits and the radius."""
        return f"Ball({self.arb.str(15)})"


def ball(constant: Constant | float) -> Ball:
    """Return the ball of an exact constant or of a float, taken as the number that it is."""
    return Ball(arb(constant))


def _arb_of(x: Any) -> Arb:
    if type(x) is Ball:
        return x.arb
    if isinstance(x, (int, Fraction)):
        return arb(x)
    raise TypeError(
        f"a Ball meets a {type(x).__name__}; accepted are balls, ints and fractions. "
        "Say ball(x) to take a float as the exact number that it is."
    )


def certainly_less(x: Arb, y: Arb) -> Truth:
    """Compare two balls, or say that they are too wide."""
    if x < y:
        return True
    return False if x >= y else UNKNOWN


def certainly_equal(x: Arb, y: Arb) -> Truth:
    """Compare two balls, or say that they are too wide."""
    if x == y:
        return True
    return UNKNOWN if x.overlaps(y) else False


def square_of(x: Arb) -> Arb:
    """Square a ball; around 0 the result reaches from 0 to the square of the largest magnitude."""
    product = x * x
    if product > 0 or x.is_exact():
        return product
    top = x.abs_upper()
    half = top * top * 0.5
    return flint.arb(half, half)


def _unary(function: Callable[[Arb], Arb]) -> Callable[[Ball], Ball]:
    return lambda x: Ball(function(x.arb))


def _binary(function: Callable[[Arb, Arb], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: function(_arb_of(x), _arb_of(y))


scalar.exp.register(Ball)(_unary(lambda a: a.exp()))
scalar.log.register(Ball)(_unary(lambda a: a.log()))
scalar.expm1.register(Ball)(_unary(lambda a: a.expm1()))
scalar.log1p.register(Ball)(_unary(lambda a: a.log1p()))
scalar.erf.register(Ball)(_unary(lambda a: a.erf()))
scalar.sqrt.register(Ball)(_unary(lambda a: a.sqrt()))
scalar.tanh.register(Ball)(_unary(lambda a: a.tanh()))
scalar.cos.register(Ball)(_unary(lambda a: a.cos()))
scalar.sin.register(Ball)(_unary(lambda a: a.sin()))
scalar.pi_like.register(Ball)(_unary(lambda a: PI))
scalar.square.register(Ball)(_unary(square_of))
scalar.absolute.register(Ball)(_unary(abs))
scalar.zero_like.register(Ball)(_unary(lambda a: flint.arb(0)))
scalar.divide.register(Ball)(_binary(lambda a, b: Ball(a / b)))
scalar.maximum.register(Ball)(_binary(lambda a, b: Ball(a.max(b))))
scalar.less.register(Ball)(_binary(certainly_less))
scalar.equal.register(Ball)(_binary(certainly_equal))
scalar.is_zero.register(Ball)(lambda x, _: bool(x.arb == 0))


@scalar.lift.register(Ball)
def _lift(like: Ball, constant: Fraction) -> Ball:
    return Ball(arb(constant))


@scalar.select.register(Unknown)
def _hull(truth: Unknown, x: Any, y: Any) -> Ball:
    return Ball(_arb_of(x).union(_arb_of(y)))
