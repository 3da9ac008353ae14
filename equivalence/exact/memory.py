"""Memory that holds exact numbers: a quiet NaN whose payload is a place in a list.

In fp32 it is a NaN of 32 bits; in fp64 the one that a cast of those makes.

So hosts allocate, view, transpose, copy and pass tensors as always, and only a load or a store of a
kernel knows. Any other bits are the number that they are, as `literals` reads it: counters, zeros,
hyper-parameters. A NaN without an entry is memory that nobody wrote.

>>> memory, z = Memory(), torch.zeros(3)
>>> memory.write(z, [Fraction(1, 3), 7, 2**70])
>>> z.flip(0), memory.read(z.flip(0))
(tensor([nan, 7., nan]), [1180591620717411303424, 7, Fraction(1, 3)])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equivalence.exact.literals import meant
from equivalence.exact.numbers import NAN, Beyond, Number
from equivalence.exact.standins import of_a_root_of_pi

Bits = NDArray[np.uint32]
Doubles = NDArray[np.float64]
Numbers = NDArray[np.object_]

QUIET, PAYLOAD, SIGN = 0x7FC00000, 22, 31
"""The bits of a quiet NaN, how many others its payload has, and where its sign stands."""

LANES = 1 << PAYLOAD
"""How many numbers the NaN of one sign can stand for."""

PLAIN = 2**24
"""Up to here, integers are stored as themselves."""

WIDER = 29
"""How many more bits the fraction of fp64 has; a cast of a NaN leaves them 0."""


def stated(number: float) -> Any:
    """Return what a float stands for that nobody drew: what it means, or what is no number."""
    if not math.isfinite(number):
        return Beyond(number)
    by_a_root = of_a_root_of_pi(number)
    return meant(number) if by_a_root is None else by_a_root


class Memory:
    """The list of the numbers that were stored."""

    def __init__(self) -> None:
        """Start with none; place 0 is that of a NaN which nobody made."""
        self._numbers: list[Any] = [NAN]

    def encoded(self, numbers: Numbers) -> Bits:
        """Return the bits that stand for numbers; OverflowError for more than 2^23 of them."""
        return np.array([self._bits(x) for x in numbers.flat], np.uint32).reshape(numbers.shape)

    def _bits(self, x: Any) -> int:
        if isinstance(x, (bool, int)) and -PLAIN <= x <= PLAIN:
            return _word(x)
        if isinstance(x, Beyond):
            return _word(x.float)
        if not isinstance(x, (Number, int, Fraction)):
            raise TypeError(f"memory of the exact ring holds exact numbers; got {x!r}")
        place: int = len(self._numbers)
        if place >> (PAYLOAD + 1):
            raise OverflowError("one point has stored 2^23 numbers; take a smaller case")
        self._numbers.append(x)
        if not place % LANES:
            return self._bits(x)
        return QUIET | place % LANES | (place >> PAYLOAD) << SIGN

    def decoded(self, bits: Bits) -> Numbers:
        """Return the numbers that bits stand for."""
        found = np.empty(bits.shape, object)
        flat, floats = found.reshape(-1), bits.view(np.float32).reshape(-1)
        words = bits.reshape(-1)
        for k in range(flat.size):
            flat[k] = self._number(int(words[k]), float(floats[k]))
        return found

    def _number(self, word: int, plain: float) -> Any:
        if plain == plain:
            return stated(plain)
        place = word % LANES | (word >> SIGN) << PAYLOAD
        known = word & QUIET == QUIET and place < len(self._numbers)
        return self._numbers[place] if known else NAN

    def write(self, tensor: Tensor, numbers: Sequence[Any]) -> None:
        """Write numbers, in row-major order, into a tensor of fp32 or fp64 of any layout."""
        bits = self.encoded(_objects(numbers))
        if tensor.dtype is torch.float64:
            held, words = _widened(bits).view(np.int64), torch.int64
        else:
            held, words = bits.view(np.int32), torch.int32
        tensor.view(words).copy_(torch.from_numpy(held).reshape(tensor.shape))

    def words(self, numbers: Sequence[Any]) -> list[int]:
        """Return the bits of numbers as torch's int32 has them."""
        return [int(word) for word in self.encoded(_objects(numbers)).view(np.int32)]

    def read(self, tensor: Tensor) -> list[Any]:
        """Return the numbers of a tensor of fp32 or fp64, in row-major order."""
        plain = tensor.detach().contiguous().numpy()
        if tensor.dtype is torch.float64:
            return list(self.of_doubles(plain).flat)
        return list(self.decoded(plain.view(np.uint32)).flat)

    def of_doubles(self, plain: Doubles) -> Numbers:
        """Return the numbers that fp64 stands for."""
        found = self.decoded(_narrowed(plain))
        finite = np.isfinite(plain)
        found[finite] = [meant(number) for number in plain[finite].tolist()]
        return found


def _widened(bits: Bits) -> NDArray[np.uint64]:
    """Cast fp32 to fp64, bit by bit where it is NaN."""
    wide = bits.view(np.float32).astype(np.float64).view(np.uint64)
    words = bits.astype(np.uint64)
    sign, payload = words >> np.uint64(SIGN), words % np.uint64(LANES)
    nan = sign << np.uint64(63) | np.uint64(0x7FF8 << 48) | payload << np.uint64(WIDER)
    return np.where(np.isnan(bits.view(np.float32)), nan, wide)


def _narrowed(plain: Doubles) -> Bits:
    """Cast what is not finite from fp64 to fp32, bit by bit where it is NaN, and the rest to 0."""
    words = plain.view(np.uint64)
    sign, payload = words >> np.uint64(63), words >> np.uint64(WIDER) & np.uint64(LANES - 1)
    nan = (sign << np.uint64(SIGN) | np.uint64(QUIET) | payload).astype(np.uint32)
    rest = np.where(np.isfinite(plain), 0.0, plain).astype(np.float32).view(np.uint32)
    return np.where(np.isnan(plain), nan, rest)


def _word(x: float) -> int:
    """Return the bits of a number of fp32."""
    return int(np.array([x], np.float32).view(np.uint32)[0])


def _objects(numbers: Sequence[Any]) -> Numbers:
    found = np.empty(len(numbers), object)
    found[:] = numbers
    return found
