"""Raise each entry to one power that is no tensor.

    z[i] = x[i]^c

C1  c is finite; it has no gradient.

Up to a magnitude of 64 a power by a whole number is a product of squares, that by a half more has a
root as its last factor, and a negative power is 1 over the positive one. Any other is e^(c ln |x|),
whose relative error grows with c ln |x|; a negative number has it where c is whole, and minus
infinity has every power, without its sign where c is not whole.
A root keeps the sign of a zero: (-0)^(-1/2) is 1 over the root of -0, minus infinity (CHOICE). By
IEEE 754's pow it is infinity.
So x^0 is 1 for every x, also for NaN, and its tangent and cotangent are 0 (CHOICE), whatever comes.

Reference: IEEE 754-2019, 9.2 (pow); PyTorch's pow with a number as exponent.

>>> from spec.tensor import tensor
>>> op(tensor([-2.0, 3.0]), c=3.0), op(tensor([4, 9]), c=-0.5)
(Tensor([-8.0, 27.0]), Tensor([Fraction(1, 2), Fraction(1, 3)]))
"""

# This page is longer than the guide because there are three ways to a power.
from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.refusals import Miss, need_finite
from spec.scalar import absolute, divide, equal, exp, is_nan, lift, log, select, sqrt, square
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")

LONGEST = 64
"""The largest power that is written out as a product."""


def type_rule(x: Type, *, c: float) -> Type:
    """Accept any shape, and a power that is finite (C1)."""
    need_finite("pow C1", c=c)
    return same_shape("pow", x)


def value(x: Tensor[A, *Dims], *, c: float) -> Tensor[A, *Dims]:
    """Raise each entry to the power."""

    def entry(a: Any) -> Any:
        return raised(a, Fraction(c))

    return x.map(entry)


def raised(a: Any, c: Fraction) -> Any:
    """Return a^c."""
    if c.denominator != 1:
        a = select(is_nan(a - a), absolute(a), a)
    by_logarithm = abs(c) > LONGEST or (2 * c).denominator != 1
    if by_logarithm:
        power = _by_logarithm(a, c)
    else:
        power = divide(1, _product(a, -c)) if c < 0 else _product(a, c)
    if c <= 1 or (c.denominator == 1 and not by_logarithm):
        return power
    return select(equal(a, 0), _product(a, _flat(c, by_logarithm)), power)


def _flat(c: Fraction, by_logarithm: bool) -> Fraction:
    """Return the whole power that 0 has instead, with c's sign there.

    ln |x| and the root have no derivative at 0. This power has c's own there, which are 0, up to
    the order of the whole number below c.
    """
    if c.denominator == 1 or not by_logarithm:
        return Fraction(math.ceil(c))
    return Fraction(2 * math.ceil(c / 2))


def _product(a: Any, c: Fraction) -> Any:
    """Return the product of a's squares that the binary digits of c name, and of its root."""
    factors: list[Any] = []
    left, power = int(c), a
    while left:
        if left % 2:
            factors.append(power)
        left //= 2
        power = square(power) if left else power
    if c.denominator == 2:
        factors.append(sqrt(a))
    result = factors[0] if factors else lift(a, Fraction(1))
    for factor in factors[1:]:
        result = result * factor
    return result


def _by_logarithm(a: Any, c: Fraction) -> Any:
    """Return e^(c ln |a|) with the sign of the power; that of an odd one is the sign of a."""
    if c.denominator != 1:
        return exp(c * log(a))
    logarithm = log(absolute(a))
    if c % 2:
        even = exp((c + 1 if c < 0 else c - 1) * logarithm)
        return divide(even, a) if c < 0 else a * even
    return exp(c * logarithm)


def partials(x: Any, *, c: float) -> tuple[Any]:
    """The rate is c x^(c - 1); on x^0 nothing depends."""
    return (Fraction(c) * raised(x, Fraction(c) - 1) if c else None,)


EDGES = (
    Edge(
        ([0.0, -0.0, math.nan],),
        ([1.0, 1.0, 1.0],),
        "IEEE",
        "the power 0 of anything is 1",
        attributes={"c": 0.0},
    ),
    Edge(
        ([-0.0, -math.inf],),
        ([-math.inf, -0.0],),
        "IEEE",
        "an odd power keeps the sign",
        attributes={"c": -3.0},
    ),
    Edge(
        ([-1.0, 0.0, math.inf],),
        ([math.nan, 0.0, math.inf],),
        "IEEE",
        "a negative number has whole powers alone",
        attributes={"c": 0.3},
    ),
    Edge(
        ([0.0, math.nan, 2.0],),
        (([0.0, 0.0, 0.0],),),
        "CHOICE",
        "nothing depends on what has the power 0",
        cotangent=[3.0, 3.0, math.inf],
        attributes={"c": 0.0},
    ),
    Edge(
        ([0.0, 4.0],),
        (([0.0, 0.25],),),
        "CHOICE",
        "a zero cotangent is absorbing, also where the rate is infinite",
        cotangent=[0.0, 1.0],
        attributes={"c": 0.5},
    ),
)

REFUSED = tuple(Miss("C1", ([1.0],), {"c": c}) for c in (math.inf, math.nan))

TRIED = {"c": (3.0, 2.0, 0.5, -1.0, 0.0, 1.0, -1.5, 0.3, -2.3, 7.0, 65.0)}

ELSEWHERE = Elsewhere("torch.pow(x, c)", "jax.numpy.power")

op = pointwise(
    "pow",
    type_rule,
    value,
    partials,
    absorbing=True,
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
