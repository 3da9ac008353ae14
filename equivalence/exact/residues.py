"""Residues: a field in which an exponential is a homomorphism, for kernels that rescale.

An online softmax multiplies e^(x - m) by e^(m - m'), so that its stand-in has to turn sums into
products. Modulo a prime p, x -> g^x does, for integers x: its values depend on x modulo p - 1,
while all other arithmetic depends on x modulo p. As p and p - 1 have no common factor, an integer
drawn from [0, p (p - 1)) is, by the Chinese remainder theorem, two independent numbers: x itself,
uniform among the residues, and g^x, uniform among those that are not 0.

>>> power(3) * power(4) == power(7), power(0) == 1
(True, True)
>>> Residue(2) / Residue(3) * 3
2 mod p
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

PRIME = 2**127 - 1
"""A Mersenne prime."""

GENERATOR = 43
"""Its powers are all residues but 0; a test checks it by the prime factors of p - 1."""

SPAN = PRIME * (PRIME - 1)
"""From how many integers a number is drawn whose exponential is wanted."""


class Residue:
    """An element of the field of p elements. It has no order and no sign."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        """Reduce an integer."""
        self.value = value % PRIME

    def __repr__(self) -> str:
        """Show the representative."""
        return f"{self.value} mod p"

    def __hash__(self) -> int:
        """Hash the representative."""
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        """Compare residues; an integer or a fraction is compared by its residue."""
        found = _residue(other)
        return found is not None and self.value == found

    def __add__(self, other: Any) -> Residue:
        """Add."""
        return Residue(self.value + _known(other))

    def __mul__(self, other: Any) -> Residue:
        """Multiply."""
        return Residue(self.value * _known(other))

    def __truediv__(self, other: Any) -> Residue:
        """Divide; ZeroDivisionError by what is 0 modulo p."""
        return Residue(self.value * _inverse(_known(other)))

    def __rtruediv__(self, other: Any) -> Residue:
        """Divide; ZeroDivisionError by what is 0 modulo p."""
        return Residue(_known(other) * _inverse(self.value))

    def __neg__(self) -> Residue:
        """Turn the sign."""
        return Residue(-self.value)

    def __lt__(self, other: Any) -> bool:
        """Refuse: a residue has no order."""
        raise TypeError(
            f"a residue has no order, and {self} was compared with {other!r}; accepted are "
            "numbers that no exponential entered"
        )

    __radd__ = __add__
    __rmul__ = __mul__
    __gt__ = __le__ = __ge__ = __lt__


def power(exponent: int) -> Residue:
    """Return the stand-in of e^exponent."""
    return Residue(pow(GENERATOR, exponent % (PRIME - 1), PRIME))


def _inverse(value: int) -> int:
    if value == 0:
        raise ZeroDivisionError("a divisor is 0 modulo p; accepted are others")
    return pow(value, -1, PRIME)


def _residue(x: object) -> int | None:
    """Return the residue of an exact number, None of what is none."""
    if isinstance(x, Residue):
        return x.value
    if isinstance(x, int):
        return x % PRIME
    if isinstance(x, Fraction):
        return x.numerator * _inverse(x.denominator % PRIME) % PRIME
    return None


def _known(x: Any) -> int:
    found = _residue(x)
    if found is None:
        raise TypeError(f"a residue meets residues, ints and Fractions; got {type(x).__name__}")
    return found
