"""The pages that draw: their values are words of Philox, counted block by block, exactly.

No other library draws these numbers, so their formulas are written here once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equivalence.cases.probes import carried
from equivalence.worlds.opaque import opaque
from spec import scalar
from spec.ops import OPS
from spec.rng import philox


@pytest.fixture(autouse=True, scope="module")
def exact_world() -> Iterator[None]:
    """Let log, roots, sine and cosine be opaque while this module runs."""
    with opaque():
        yield


def uniform(count: int, seed: int, counter: int) -> list[Fraction]:
    """Draw block by block, all four words of each, as many as are wanted."""
    low, high = 2**32 - 1, 32
    words: list[int] = []
    while len(words) < count:
        block = len(words) // 4
        counters = (block & low, block >> high, counter & low, counter >> high)
        words += philox(counters, (seed & low, seed >> high))
    return [Fraction(word >> 8, 2**24) for word in words[:count]]


def drawn(call: Any, more: int = 0) -> list[Fraction]:
    """Return the uniform numbers of a call, and so many beyond them."""
    count = math.prod(call.attributes.get("shape", call.value.shape))
    return uniform(count + more, call.attributes["seed"], call.attributes["counter"])


@given(call=carried(OPS["rand_uniform"]))
def test_uniform_numbers_are_the_leading_bits_of_words(call: Any) -> None:
    assert list(call.value.data) == drawn(call)


@given(call=carried(OPS["bernoulli_mask"]))
def test_a_mask_is_1_where_the_number_is_less(call: Any) -> None:
    expected = [int(u < call.attributes["keep_prob"]) for u in drawn(call)]
    assert list(call.value.data) == expected


@given(call=carried(OPS["rand_normal"]))
def test_normal_numbers_are_those_of_box_and_muller(call: Any) -> None:
    u = drawn(call, 1)
    expected = []
    for k in range(len(u) - 1):
        first, second = u[k - k % 2], u[k - k % 2 + 1]
        angle = 2 * scalar.pi_like(call.attributes["like"]) * second
        wave = scalar.sin(angle) if k % 2 else scalar.cos(angle)
        expected.append(scalar.sqrt(-2 * scalar.log(1 - first)) * wave)
    assert list(call.value.data) == expected


@given(data=st.data())
def test_dropout_keeps_and_scales(data: st.DataObject) -> None:
    call = data.draw(carried(OPS["dropout"]))
    (x,), kept = call.inputs, 1 - Fraction(call.attributes["p"])
    expected = [a / kept if u < kept else 0 for a, u in zip(x.data, drawn(call), strict=True)]
    assert list(call.value.data) == (expected if call.attributes["training"] else list(x.data))
