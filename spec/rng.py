"""Chapter 10. Random numbers: a pure function of (seed, call counter, element index).

Philox4x32-10 turns a 128-bit counter and a 64-bit key into four 32-bit words by ten rounds of
multiply, exchange and xor. Nothing is remembered between calls, so the same element is drawn
wherever it is computed: on the tape, in a kernel, or on another machine.

Element i (row-major) of call c under seed s is word i mod 4 of the block with counter
(lo, hi of i div 4; lo, hi of c) and key (lo, hi of s).

Reference: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
section 3.2 and the known answers published with it.

>>> [f"{word:08x}" for word in philox((0, 0, 0, 0), (0, 0))]
['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
"""

from __future__ import annotations

from fractions import Fraction

from spec.op import refuse

Counter = tuple[int, int, int, int]
Key = tuple[int, int]

MASK = 2**32 - 1
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox(counter: Counter, key: Key) -> tuple[int, int, int, int]:
    """Return the four 32-bit words of one block of Philox4x32-10."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        even, odd = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (odd >> 32) ^ c1 ^ k0, odd & MASK, (even >> 32) ^ c3 ^ k1, even & MASK
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return c0, c1, c2, c3


def _halves(word: int) -> tuple[int, int]:
    return word & MASK, word >> 32


def random_word(seed: int, call: int, element: int) -> int:
    """Return the 32-bit word of one element of one call; all arguments lie in [0, 2^64)."""
    for name, number in (("seed", seed), ("call", call), ("element", element)):
        if not 0 <= number < 2**64:
            raise refuse("rng", f"the {name} lies in [0, 2^64)", number)
    block, lane = divmod(element, 4)
    return philox((*_halves(block), *_halves(call)), _halves(seed))[lane]


def uniform(seed: int, call: int, element: int) -> Fraction:
    """Return a uniform number in [0, 1): 24 random bits, so that 1 is never drawn in binary32.

    >>> 0 <= uniform(7, 0, 0) < 1
    True
    """
    return Fraction(random_word(seed, call, element) >> 8, 2**24)
