"""Chapter 14. Random numbers: a pure function of (seed, call counter, element index).

Philox4x32-10 turns a 128-bit counter and a 64-bit key into four 32-bit words by ten rounds of
multiply, exchange and xor. Nothing is remembered between calls, so the same element is drawn
wherever it is computed: on the tape, in a kernel, or on another machine.

Element i (row-major) of call c under seed s is word i mod 4 of the block with counter
(lo, hi of i div 4; lo, hi of c) and key (lo, hi of s).

A session counts the random calls that it records (`Draws`), so that each draws anew; derivatives
and replays of one record reuse its counters, and resetting the tape does not rewind.

Reference: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
section 3.2 and the known answers published with it.

>>> [f"{word:08x}" for word in philox((0, 0, 0, 0), (0, 0))]
['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from spec.op import Op, Rejected, Type, refuse
from spec.refusals import Miss
from spec.scalar import Extent, OpenFunction, divide, less
from spec.shape import Shape, is_extent
from spec.tensor import Nested

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


class Words(OpenFunction):
    """The words of Philox, by the position of an element; a world of symbols leaves them open."""

    def __call__(self, seed: int, call: int, element: object) -> Any:
        """Return the 32-bit word of one element of one call; all arguments lie in [0, 2^64)."""
        for name, number in (("seed", seed), ("call", call)):
            _check_word(name, number)
        return self.rule_for(type(element))(seed, call, element)


random_word = Words("random_word")


@random_word.register(int)
def _random_word(seed: int, call: int, element: int) -> int:
    _check_word("element", element)
    block, lane = divmod(element, 4)
    return philox((*_halves(block), *_halves(call)), _halves(seed))[lane]


def _check_word(name: str, number: int) -> None:
    if not is_word(number):
        raise refuse("rng", f"the {name} lies in [0, 2^64)", number)


def is_word(number: object) -> bool:
    """Tell whether a number is an integer in [0, 2^64)."""
    return type(number) is int and 0 <= number < 2**64


def leading_bits(seed: int, call: int, element: Extent) -> Any:
    """Return the leading 24 bits of a word: as many as binary32 keeps."""
    return random_word(seed, call, element) // 256


def uniform(seed: int, call: int, element: Extent) -> Any:
    """Return a uniform number in [0, 1): 24 random bits, so that 1 is never drawn in binary32.

    >>> 0 <= uniform(7, 0, 0) < 1
    True
    """
    return divide(leading_bits(seed, call, element), 2**24)


def is_kept(probability: float | Fraction, seed: int, call: int, element: Extent) -> Any:
    """Tell whether a uniform number is less than a probability: exactly, by comparing integers.

    A number of 24 bits is less than p just where it is less than the next such number from p on.
    """
    bound = math.ceil(Fraction(probability) * 2**24)
    return less(leading_bits(seed, call, element), bound)


def check_call(name: str, seed: object, counter: object) -> None:
    """Refuse a seed (C2) or a call counter (C3) that is no 64-bit word."""
    for label, what, number in (("C2", "seed", seed), ("C3", "call counter", counter)):
        if not is_word(number):
            rule = f"the {what} is an integer in [0, 2^64)"
            raise refuse(f"{name} {label}", rule, repr(number))


def bad_calls(*inputs: Nested, **attributes: Any) -> tuple[Miss, ...]:
    """Return calls that check_call refuses, of an op with such inputs and other attributes."""
    return tuple(
        Miss(label, inputs, {"seed": 7, "counter": 0, **attributes, name: bad})
        for label, name in (("C2", "seed"), ("C3", "counter"))
        for bad in (-1, 2**64, 1.0, True, None)
    )


def check_shape(name: str, shape: Shape) -> Type:
    """Accept extents that count something (C1)."""
    if not all(is_extent(n) for n in shape):
        raise refuse(f"{name} C1", "every extent is an integer >= 0", tuple(shape))
    return Type(tuple(shape))


def bad_sources(**attributes: Any) -> tuple[Miss, ...]:
    """Return calls that check_shape and check_call refuse, of an op with other attributes."""
    call = {"seed": 7, "counter": 0, **attributes}
    shapes = ((-1,), (2, -1), (2.0,), (True,))
    bad_shapes = tuple(Miss("C1", (), {"shape": shape, **call}) for shape in shapes)
    return (*bad_shapes, *bad_calls(shape=(2,), **attributes))


CHANCES = (0.5, 0.1, 1.0, 0.75, 0.0, 1 / 3, 2.0**-30, 1 - 2.0**-30)
"""Probabilities at which mistakes show."""


def check_probability(label: str, probability: Any) -> None:
    """Refuse what is no number in [0, 1]; NaN is none."""
    known = isinstance(probability, (int, float, Fraction)) and not isinstance(probability, bool)
    if not known or not 0 <= probability <= 1:
        raise refuse(label, "a probability lies in [0, 1]", repr(probability))


def bad_probabilities(
    label: str, name: str, *inputs: Nested, **attributes: Any
) -> tuple[Miss, ...]:
    """Return calls whose attribute of that name check_probability refuses under the label."""
    wrong = (-0.1, 1.1, 1 + 2.0**-52, math.nan, math.inf, True, "half")
    call = {"seed": 7, "counter": 0, **attributes}
    return tuple(Miss(label, inputs, {**call, name: bad}) for bad in wrong)


class Draws:
    """What a session keeps of its random calls.

    like is a scalar of the world in which the session's random numbers are wanted.
    """

    like: Any = 0.0
    _next_call: int = 0

    @property
    def random_counter(self) -> int:
        """The counter that the next random call takes; resetting the tape does not rewind it.

        It may be set to any integer in [0, 2^64), as from a checkpoint.
        """
        return self._next_call

    @random_counter.setter
    def random_counter(self, counter: int) -> None:
        if not is_word(counter):
            raise refuse("random_counter", "an integer in [0, 2^64)", repr(counter))
        self._next_call = counter

    def _with_counter(self, op: Op, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return an op's attributes, with what the session supplies to one that makes numbers."""
        known = {"counter": self._next_call, "like": self.like}
        supplied = {name: value for name, value in known.items() if name in op.attributes}
        given = supplied.keys() & attributes.keys()
        if given:
            raise Rejected(f"{op.name}: the session supplies {min(given)!r}; leave it out")
        return attributes | supplied

    def _count_call(self, op: Op) -> None:
        """Take the counter of an op that was recorded; one that was refused takes none."""
        self._next_call += op.random
