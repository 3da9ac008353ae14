"""The kinds of results that are not finite, as bits, for those who judge without any library."""

from __future__ import annotations

import math

NOT_A_NUMBER, PLUS, MINUS = 1, 2, 4
INFINITE = PLUS | MINUS
ANYTHING = NOT_A_NUMBER | INFINITE
"""What a result that is not finite may be."""

UNDEFINED = 8
"""On the way, a NaN that no NaN has caused: infinity minus infinity, or times 0, and their like."""

NANS = NOT_A_NUMBER | UNDEFINED

NAMES = {NOT_A_NUMBER: "nan", PLUS: "inf", MINUS: "-inf"}


def kind_of(number: float) -> int:
    """Return the kind of a float that is not finite."""
    return NOT_A_NUMBER if math.isnan(number) else PLUS if number > 0 else MINUS


def opposite(kinds: int) -> int:
    """Swap the infinities."""
    swapped = (PLUS if kinds & MINUS else 0) | (MINUS if kinds & PLUS else 0)
    return (kinds & NANS) | swapped


def named(kinds: int) -> list[str]:
    """Name the kinds."""
    return [name for kind, name in NAMES.items() if judged(kinds) & kind]


def judged(kinds: int) -> int:
    """Return the kinds by which a result is judged: a NaN is a NaN."""
    return kinds & ANYTHING | (NOT_A_NUMBER if kinds & UNDEFINED else 0)
