"""Numbers as text: the shortest that is read back as the very number, in the number's own format.

>>> shortest(0.10000000149011612, "fp32"), shortest(0.10000000149011612, "fp64")
('0.1', '0.10000000149011612')
"""

from __future__ import annotations

import math
from fractions import Fraction

from equivalence.dtypes import DTYPES, Format

MOST_DIGITS = 17
"""So many digits tell every number of float64 from its neighbours."""


def shortest(number: float, dtype: str) -> str:
    """Return the shortest decimal that a reader of this dtype takes for this number.

    The number is one of the dtype. In another dtype than those of `DTYPES`, such as int64, and for
    what is not finite, it is Python's own text.
    """
    if dtype not in DTYPES or not math.isfinite(number) or number == 0:
        return repr(number)
    store = DTYPES[dtype].store
    for digits in range(1, MOST_DIGITS):
        text = f"{number:.{digits}g}"
        if reads_as(text, number, store):
            return repr(float(text))
    return repr(number)


def reads_as(text: str, number: float, store: Format) -> bool:
    """Say whether a decimal, rounded to a format, is this number of the format.

    A decimal halfway between two numbers is left out, as it depends on the reader.
    """
    missed = Fraction(text) - Fraction(number)
    mantissa, exponent = math.frexp(abs(number))
    apart = Fraction(2) ** (max(exponent - 1, store.min_exponent) - store.precision + 1)
    below = missed * (1 if number > 0 else -1) < 0
    # The numbers below a power of two lie closer together, unless they are subnormal.
    closer = below and mantissa == 0.5 and exponent - 1 > store.min_exponent
    return abs(missed) < apart / (4 if closer else 2)
