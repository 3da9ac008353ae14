"""Random words, twice: Philox4x32-10 in kernels, all words uint32, and on int64 tensors in ATen.

Element i (row-major) of call c under seed s is word i mod 4 of the block with counter (lo, hi of
i div 4; lo, hi of c) and key (lo, hi of s). One block serves four elements, which lie side by side.

The counter of a call is a number, or a cell: one int64 in device memory that holds its 64 bits, so
that a recorded step can be replayed with other counters. A backward pass reads it again, so a cell
moves on between passes only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from fast.device import dtypes
from fast.device.launch import launch
from fast.device.mode import tl, triton
from fast.errors import Rejected
from fast.kernels import checks

BLOCK = 1024
ROUNDS = 10
MASK = 2**32 - 1
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
_M0, _M1, _W0, _W1 = (tl.constexpr(word) for word in (*MULTIPLIERS, *WEYL))
_ROUNDS = tl.constexpr(ROUNDS)
_UNIT = tl.constexpr(2.0**-24)

Counter = int | Tensor
Word = Any
"""An int or an int64 tensor; the arithmetic below is that of both."""


@triton.jit
def philox(c0, c1, c2, c3, k0, k1):
    """Return the four words of a block; a word that is not uint32 would be another generator."""
    for _ in tl.static_range(_ROUNDS):
        even, odd = c0, c2
        c0 = tl.umulhi(odd, _M1) ^ c1 ^ k0
        c2 = tl.umulhi(even, _M0) ^ c3 ^ k1
        c1 = odd * _M1
        c3 = even * _M0
        k0 = k0 + _W0
        k1 = k1 + _W1
    return c0, c1, c2, c3


@triton.jit
def tile_words(start, cell, call_low, call_high, seed_low, seed_high, BLOCK: tl.constexpr):
    """Return the four words of each block of a tile of elements that starts at `start`."""
    block = start // 4 + tl.arange(0, BLOCK // 4)
    if cell is not None:
        call = tl.load(cell)
        call_low, call_high = call, call >> 32
    return philox(
        block.to(tl.uint32), (block >> 32).to(tl.uint32),
        call_low.to(tl.uint32), call_high.to(tl.uint32),
        seed_low.to(tl.uint32), seed_high.to(tl.uint32),
    )  # fmt: skip


@triton.jit
def in_order(a, b, c, d):
    """Lay the four results of each block side by side."""
    return tl.interleave(tl.interleave(a, c), tl.interleave(b, d))


@triton.jit
def leading(word):
    """Return the leading 24 bits of a word, as a number that fp32 holds."""
    return (word >> 8).to(tl.int32)


@triton.jit
def unit(word):
    """Return the uniform number of a word, exactly."""
    return leading(word).to(tl.float32) * _UNIT


@triton.jit(
    do_not_specialize=["call_low", "call_high", "seed_low", "seed_high", "n", "bound"],
    do_not_specialize_on_alignment=["cell"],
)
def _fill_kernel(
    z, cell, call_low: tl.int64, call_high: tl.int64, seed_low: tl.int64, seed_high: tl.int64,
    n: tl.int64, bound: tl.int32, FN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0).to(tl.int64) * BLOCK
    w0, w1, w2, w3 = tile_words(start, cell, call_low, call_high, seed_low, seed_high, BLOCK)
    drawn = FN(w0, w1, w2, w3, bound).to(z.dtype.element_ty)
    index = start + tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        tl.store(z + index, drawn)
    else:
        tl.store(z + index, drawn, mask=index < n)


def fill(
    fn: Any,
    shape: Sequence[int],
    seed: int,
    counter: Counter,
    dtype: torch.dtype,
    device: torch.device,
    bound: int = 0,
) -> Tensor:
    """Return a fresh tensor; `fn` turns the words of its blocks, and `bound`, into fp32."""
    z = torch.empty(tuple(shape), dtype=dtype, device=device)
    checks.for_kernels(z)
    n = z.numel()
    grid = (-(-n // BLOCK),)
    launch(_fill_kernel, grid, z, *call_arguments(seed, counter), n, bound, FN=fn, BLOCK=BLOCK)
    return z


def call_arguments(seed: int, counter: Counter) -> tuple[Tensor | int | None, ...]:
    """Return what a kernel takes of a call: the cell or None, and the words of call and seed."""
    if isinstance(counter, Tensor):
        return (counter, 0, 0, *_halves(seed))
    return (None, *_halves(counter), *_halves(seed))


def _halves(word: Any) -> tuple[Any, Any]:
    return word & MASK, (word >> 32) & MASK


def aten_philox(c0: Word, c1: Word, c2: Word, c3: Word, k0: int, k1: int) -> tuple[Word, ...]:
    """Return the four words of blocks; words are ints or int64 tensors, in [0, 2^32).

    A multiplier m is above 2^31, so c (m - 2^32) lies within int64, where c m might not: its low
    half is that of c m, and its high half is c less than that of c m.
    """
    m0, m1 = (multiplier - 2**32 for multiplier in MULTIPLIERS)
    for _ in range(ROUNDS):
        even, odd = c0 * m0, c2 * m1
        c0, c2 = _mixed(odd, c2, c1, k0), _mixed(even, c0, c3, k1)
        odd &= MASK
        even &= MASK
        c1, c3 = odd, even
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return c0, c1, c2, c3


def _mixed(product: Word, multiplied: Word, low: Word, key: int) -> Word:
    """Return the high half of a product, mixed with a low half and a key, in fresh memory."""
    word = product >> 32
    word += multiplied
    word ^= low
    word ^= key
    return word


def _aten_blocks(
    seed: int, counter: Counter, begin: int, end: int, device: torch.device | None
) -> tuple[Word, ...]:
    """Return the four words of blocks; a number stands for words that are the same in all."""
    block = torch.arange(begin, end, dtype=torch.int64, device=device)
    # What is a number takes no pass, so the first two rounds cost what one does.
    low, high = _halves(block) if end > MASK else (block, 0)
    if isinstance(counter, Tensor):
        counter = counter.expand(block.shape)
        # Else Inductor makes c0 m0 one arange, whose steps at::vec adds up in a C int.
        low = low & MASK
    return aten_philox(low, high, *_halves(counter), *_halves(seed))


def aten_words(
    seed: int, counter: Counter, count: int, device: torch.device | None = None, first: int = 0
) -> Tensor:
    """Return the words of `count` elements from the element `first` on, as int64."""
    begin, end = first // 4, -(-(first + count) // 4)
    words = _aten_blocks(seed, counter, begin, end, device)
    return torch.stack(words, 1).reshape(-1)[first % 4 :][:count]


def aten_leading(seed: int, counter: Counter, count: int, device: torch.device) -> Tensor:
    """Return the leading 24 bits of the words of elements."""
    return aten_words(seed, counter, count, device) >> 8


def aten_below(seed: int, counter: Counter, count: int, device: torch.device, bound: int) -> Tensor:
    """Say of which elements the leading 24 bits are below a bound."""
    words = _aten_blocks(seed, counter, 0, -(-count // 4), device)
    return torch.stack([word < bound << 8 for word in words], 1).reshape(-1)[:count]


def aten_uniform(
    seed: int, counter: Counter, count: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return the uniform numbers of elements, in a dtype that holds them."""
    return aten_leading(seed, counter, count, device).to(dtype).mul_(2.0**-24)


def bound_of(probability: Any) -> int:
    """Return how many of the 2^24 uniform numbers are less than a probability, exactly."""
    return math.ceil(Fraction(probability) * 2**24)


def check_call(op: str, seed: Any, counter: Any) -> None:
    """Refuse a seed (C2) or a call counter (C3) that is no 64-bit word; cells are trusted."""
    for label, what, word in (("C2", "seed", seed), ("C3", "call counter", counter)):
        if not is_word(word) and not (label == "C3" and isinstance(word, Tensor)):
            raise Rejected(f"{op} {label}: the {what} is an integer in [0, 2^64), got {word!r}")


def is_word(number: object) -> bool:
    """Say whether a number is an integer in [0, 2^64)."""
    return type(number) is int and 0 <= number < 2**64


def check_source(
    op: str, shape: Sequence[int], seed: Any, counter: Any, dtype: torch.dtype
) -> None:
    """Refuse extents (C1), a seed (C2), a call counter (C3) and a dtype that no op draws."""
    checks.extents(f"{op} C1", shape)
    check_call(op, seed, counter)
    if dtype not in dtypes.OF:
        raise Rejected(f"{op}: results are {dtypes.listed()}, got {dtype}")


def check_probability(label: str, probability: Any) -> None:
    """Refuse what is no number in [0, 1]; NaN is none."""
    known = isinstance(probability, (int, float, Fraction)) and not isinstance(probability, bool)
    if not known or not 0 <= probability <= 1:
        raise Rejected(f"{label}: a probability lies in [0, 1], got {probability!r}")
