"""Philox4x32-10 against the known answers that were published with it, and how words are drawn."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec.op import Rejected
from spec.rng import is_kept, philox, random_word, uniform

FULL = 0xFFFFFFFF

KNOWN = [
    # Random123, kat_vectors: philox4x32 with 10 rounds.
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((FULL,) * 4, (FULL,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
WORDS = st.integers(0, 2**64 - 1)


@pytest.mark.holds("Random numbers")
@pytest.mark.parametrize(("counter", "key", "words"), KNOWN, ids=["zeros", "ones", "pi"])
def test_philox_gives_the_published_words(counter, key, words) -> None:
    assert philox(counter, key) == words


@settings(max_examples=100)
@given(seed=WORDS, call=WORDS, element=WORDS)
def test_an_element_is_a_word_of_its_block(seed: int, call: int, element: int) -> None:
    block = element // 4
    counter = (block & FULL, block >> 32, call & FULL, call >> 32)
    assert (
        random_word(seed, call, element) == philox(counter, (seed & FULL, seed >> 32))[element % 4]
    )


@pytest.mark.parametrize("far", [2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1])
def test_no_counter_wraps_at_32_bits(far: int) -> None:
    near = far % 2**32
    if near != far:
        assert random_word(far, 0, 0) != random_word(near, 0, 0)
        assert random_word(0, far, 0) != random_word(0, near, 0)
        assert random_word(0, 0, far) != random_word(0, 0, near)


@pytest.mark.parametrize("bad", [-1, 2**64])
def test_what_is_no_64_bit_word_is_refused(bad: int) -> None:
    for name, arguments in (("seed", (bad, 0, 0)), ("call", (0, bad, 0)), ("element", (0, 0, bad))):
        with pytest.raises(Rejected, match=f"rng: the {name} lies in"):
            random_word(*arguments)


@settings(max_examples=100)
@given(seed=WORDS, call=WORDS, element=WORDS)
def test_a_uniform_keeps_the_leading_24_bits_and_is_never_1(seed, call, element) -> None:
    drawn = uniform(seed, call, element)
    assert drawn == Fraction(random_word(seed, call, element) // 256, 2**24)
    assert 0 <= drawn < 1
    assert Fraction(float(drawn)) == drawn


@settings(max_examples=100)
@given(seed=WORDS, call=WORDS, element=WORDS, shift=st.integers(-2, 2))
def test_an_element_is_kept_where_its_number_is_less(seed, call, element, shift) -> None:
    drawn = uniform(seed, call, element)
    for probability in (Fraction(1, 3), drawn, drawn + Fraction(shift, 2**60), Fraction(0.1)):
        if 0 <= probability <= 1:
            assert is_kept(probability, seed, call, element) == (drawn < probability)
    assert is_kept(1, seed, call, element) and not is_kept(0, seed, call, element)
