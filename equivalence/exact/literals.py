"""What a float means: the simplest fraction that rounds to it.

Hosts hand kernels numbers that were fractions before they were floats: 1/n, 1 - beta, the 1e-6 that
guards a norm. Rounding is not this ring's business, so a float stands for the fraction of the
smallest denominator among those that the float's format cannot tell from it; whoever draws a
hyper-parameter draws a fraction whose denominator is small enough to be found again.

>>> meant(0.1), meant(1 - 0.9), meant(2.0**-24), meant(1e-6)
(Fraction(1, 10), Fraction(1, 10), Fraction(1, 16777216), Fraction(1, 1000000))
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from functools import lru_cache

LOST = {"float": Fraction(1, 2**24), "double": Fraction(1, 2**50)}
"""How far, relatively, a float may lie from what it means: half a unit of fp32, into which hosts
round once, and four units of fp64, in which they also compute."""


@lru_cache(maxsize=65536)
def meant(number: float) -> int | Fraction:
    """Return the simplest fraction near a finite float; an int where it is one.

    Whether a float was rounded to fp32 or to fp64 is told from its digits.
    """
    exact = Fraction(number)
    if exact.denominator == 1:
        return exact.numerator
    lost = abs(exact) * LOST["float" if _is_single(number) else "double"]
    found = _simplest(abs(exact) - lost, abs(exact) + lost)
    return int(math.copysign(1, number)) * (found.numerator if found.denominator == 1 else found)


def written(constant: int | Fraction) -> int | Fraction:
    """Return what a constant of a page stands for: the exact value of a float, what that means.

    >>> written(Fraction(0.1)), written(Fraction(1, 3)), written(Fraction(1, 2**24))
    (Fraction(1, 10), Fraction(1, 3), Fraction(1, 16777216))
    """
    below = constant.denominator
    return constant if below <= 2**24 or below & (below - 1) else meant(float(constant))


def _is_single(number: float) -> bool:
    """Say whether fp32 holds a float."""
    try:
        single: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return False
    return single == number


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction of the smallest denominator in [low, high], 0 < low."""
    whole = math.ceil(low)
    if whole <= high:
        return Fraction(whole)
    floor = whole - 1
    return floor + 1 / _simplest(1 / (high - floor), 1 / (low - floor))
