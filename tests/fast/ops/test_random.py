"""Random numbers: Philox's published words, the same bits from every provider, and the counter."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fast import Rejected, Session, Unavailable
from fast.device.counters import counters
from fast.device.launch import launch
from fast.device.mode import described, tl, triton
from fast.kernels.elementwise import random
from fast.ops import OPS
from spec.ops import OPS as PAGES
from spec.rng import random_word, uniform
from spec.session import Session as Reference
from spec.tensor import tensor
from tests.spec.test_rng import KNOWN

CPU = torch.device("cpu")
PROVIDERS = ["aten", "triton"]
BOTH = pytest.mark.parametrize("provider", PROVIDERS)
WORDS = st.integers(0, 2**64 - 1)
FAR = [(2**64 - 1, 2**64 - 1), (2**63, 2**32), (2**32, 2**32 - 1), (7, 2**63 + 1)]
"""Seeds and call counters that a generator of fewer bits would confuse with others."""

CALLS: dict[str, dict[str, Any]] = {
    "rand_uniform": {},
    "rand_normal": {},
    "bernoulli_mask": {"keep_prob": 0.3},
}


@triton.jit
def _block_kernel(z, c0, c1, c2, c3, k0, k1):
    words = random.philox(
        c0.to(tl.uint32), c1.to(tl.uint32), c2.to(tl.uint32),
        c3.to(tl.uint32), k0.to(tl.uint32), k1.to(tl.uint32),
    )  # fmt: skip
    for k in tl.static_range(4):
        tl.store(z + k, words[k].to(tl.int64))


@triton.jit(do_not_specialize=["start", "call_low", "call_high", "seed_low", "seed_high"])
def _words_kernel(z, start, cell, call_low, call_high, seed_low, seed_high, BLOCK: tl.constexpr):
    w0, w1, w2, w3 = random.tile_words(
        start.to(tl.int64), cell, call_low, call_high, seed_low, seed_high, BLOCK
    )
    words = random.in_order(w0, w1, w2, w3)
    tl.store(z + tl.arange(0, BLOCK), words.to(tl.int64))


def interpreted_words(seed: int, counter: Any, first: int) -> list[int]:
    """Return sixteen words from an element on whose number four divides."""
    z = torch.empty(16, dtype=torch.int64)
    launch(_words_kernel, (1,), z, first, *random.call_arguments(seed, counter), BLOCK=16)
    return z.tolist()


def cell(counter: int) -> Tensor:
    """Put a counter into device memory: the same 64 bits, as torch can hold them."""
    return torch.tensor(counter if counter < 2**63 else counter - 2**64)


def draw(op: str, provider: str, **attributes: Any) -> Tensor:
    """Check and draw, in fp32 unless told."""
    call = {"dtype": torch.float32, "device": CPU, **CALLS[op], **attributes}
    OPS[op].check(**call)
    z, saved = OPS[op].hosts(provider)[0](**call)
    assert saved == () and OPS[op].hosts(provider)[1](saved, z, ()) == ()
    assert z.shape == call["shape"] and z.dtype is call["dtype"] and z.is_contiguous()
    return z


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN, ids=["zeros", "ones", "pi"])
def test_the_published_words(counter: Any, key: Any, words: Any) -> None:
    assert random.aten_philox(*counter, *key) == words
    blocks = [torch.tensor([word, 0]) for word in counter]
    assert tuple(int(w[0]) for w in random.aten_philox(*blocks, *key)) == words
    z = torch.empty(4, dtype=torch.int64)
    launch(_block_kernel, (1,), z, *counter, *key)
    assert tuple(z.tolist()) == words


@settings(max_examples=40)
@given(seed=WORDS, counter=WORDS, first=WORDS)
def test_the_words_of_any_element(seed: int, counter: int, first: int) -> None:
    first = min(first, 2**64 - 16)
    expected = [random_word(seed, counter, first + k) for k in range(16)]
    for given_counter in (counter, cell(counter)):
        assert random.aten_words(seed, given_counter, 16, CPU, first).tolist() == expected
        assert random.aten_words(seed, given_counter, 2, CPU, first + 3).tolist() == expected[3:5]
    first = first % 2**61 // 4 * 4
    expected = [random_word(seed, counter, first + k) for k in range(16)]
    for given_counter in (counter, cell(counter)):
        assert interpreted_words(seed, given_counter, first) == expected


@pytest.mark.holds("Random numbers")
@BOTH
@pytest.mark.parametrize(("seed", "counter"), FAR)
def test_uniform_numbers_are_the_references_bit_for_bit(
    provider: str, seed: int, counter: int
) -> None:
    expected = [uniform(seed, counter, k) for k in range(1030)]
    z = draw("rand_uniform", provider, shape=(2, 515), seed=seed, counter=counter)
    assert z.flatten().tolist() == [float(u) for u in expected]
    exact = torch.tensor([float(u) for u in expected], dtype=torch.float64).reshape(2, 515)
    narrow = draw("rand_uniform", "aten", shape=(2, 515), seed=seed, counter=counter,
                  dtype=torch.bfloat16)  # fmt: skip
    assert torch.equal(narrow, exact.float().to(torch.bfloat16))
    wide = draw("rand_uniform", "aten", shape=(2, 515), seed=seed, counter=counter,
                dtype=torch.float64)  # fmt: skip
    assert torch.equal(wide, exact)


@BOTH
def test_one_is_never_drawn_and_zero_is(provider: str) -> None:
    (largest,) = draw("rand_uniform", provider, shape=(1,), seed=16390493, counter=0).tolist()
    assert largest == 1 - 2.0**-24
    assert draw("rand_uniform", provider, shape=(1,), seed=12121362, counter=0).tolist() == [0.0]
    both = draw("rand_normal", provider, shape=(2,), seed=12121362, counter=0)
    assert both.tolist() == [0.0, 0.0]


@BOTH
@pytest.mark.parametrize("op", CALLS)
def test_an_entry_depends_on_its_position_alone(op: str, provider: str) -> None:
    whole = draw(op, provider, shape=(2050,), seed=7, counter=3)
    for shape in ((), (0,), (1,), (3,), (2, 0, 3), (5, 5), (1023,), (41, 25)):
        part = draw(op, provider, shape=shape, seed=7, counter=3)
        assert torch.equal(part.flatten(), whole[: part.numel()])


@BOTH
@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize(("seed", "counter"), FAR)
def test_a_cell_stands_for_its_number(op: str, provider: str, seed: int, counter: int) -> None:
    by_number = draw(op, provider, shape=(70,), seed=seed, counter=counter)
    assert torch.equal(by_number, draw(op, provider, shape=(70,), seed=seed, counter=cell(counter)))
    other = draw(op, provider, shape=(70,), seed=seed, counter=counter % 2**32 ^ 1)
    assert not torch.equal(by_number, other)


@pytest.mark.holds("Random numbers")
@BOTH
@pytest.mark.parametrize("keep", [0, 2.0**-1074, 0.1, 0.5, 0.5 + 2.0**-40, 1 - 2.0**-53, 1])
def test_masks_are_the_references(provider: str, keep: float) -> None:
    for seed in (515707, 4613456, 12121362, 16390493):
        call: dict[str, Any] = {"shape": (33,), "seed": seed, "counter": 0, "keep_prob": keep}
        expected = PAGES["bernoulli_mask"](**call).nested()
        assert draw("bernoulli_mask", provider, **call).tolist() == expected


def dropped(x: Tensor, provider: str, **call: Any) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Check and drop; return the result and the way back."""
    OPS["dropout"].check(x, **call)
    value, vjp = OPS["dropout"].hosts(provider)
    z, saved = value(x, **call)
    held = [item for item in saved if isinstance(item, Tensor)]
    if provider == "triton":
        assert all(item is call["counter"] for item in held), "the mask is drawn again"
    else:
        assert all(set(mask.flatten().tolist()) <= {0, 1} for mask in held)
    assert z.is_contiguous() and (not x.numel() or z.data_ptr() != x.data_ptr())

    def back(g: Tensor) -> Tensor:
        assert vjp(saved, g, (False,)) == (None,)
        return vjp(saved, g, (True,))[0]

    return z, back


@BOTH
@pytest.mark.parametrize("p", [0, 0.5, 0.75, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_is_its_own_transpose_on_every_layout(
    provider: str, p: float, dtype: torch.dtype
) -> None:
    x = torch.randint(-4, 5, (40, 66), generator=torch.Generator().manual_seed(0)).to(dtype)
    layouts = [x, x.T, x[1:, ::2], x[0].expand(3, 66), x[0, 0], x[:0], x.flatten()[1:]]
    for layout in layouts:
        call = {"p": p, "seed": 2**64 - 1, "counter": 2**32 + 5}
        z, back = dropped(layout, provider, **call)
        mask = draw("bernoulli_mask", provider, shape=tuple(layout.shape), keep_prob=1 - p,
                    seed=call["seed"], counter=call["counter"])  # fmt: skip
        scaled = (layout.float() / (1 - p)).to(dtype) if p < 1 else torch.zeros_like(layout)
        assert torch.equal(z, torch.where(mask > 0, scaled, torch.zeros_like(scaled)))
        assert torch.equal(back(layout), z)


@BOTH
def test_what_is_dropped_vanishes_and_rest_is_the_identity(provider: str) -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf, math.nan] * 2)
    z, back = dropped(x, provider, p=0.5, seed=0, counter=0)
    assert z[1:4].tolist() == [0.0, 0.0, 0.0] and z[0].isnan()
    assert back(x)[1:4].tolist() == [0.0, 0.0, 0.0]
    z, back = dropped(x, provider, p=1, seed=0, counter=0)
    assert torch.equal(z, torch.zeros(8)) and torch.equal(back(x), torch.zeros(8))
    z, back = dropped(x, provider, p=1, seed=0, counter=0, training=False)
    assert torch.equal(z.nan_to_num(7.0), x.nan_to_num(7.0))
    assert back(x) is x


def test_dropout_by_a_cell_goes_back_by_the_same_cell() -> None:
    x = torch.arange(1.0, 70.0)
    for provider in PROVIDERS:
        z, back = dropped(x, provider, p=0.5, seed=7, counter=cell(2**64 - 2))
        expected, _ = dropped(x, provider, p=0.5, seed=7, counter=2**64 - 2)
        assert torch.equal(z, expected) and torch.equal(back(x), expected)


def test_double_precision_is_atens() -> None:
    with pytest.raises(Unavailable, match=r"torch\.float64"):
        draw("rand_uniform", "triton", shape=(2,), seed=7, counter=0, dtype=torch.float64)
    with pytest.raises(Unavailable, match=r"torch\.float64"):
        dropped(torch.ones(2, dtype=torch.float64), "triton", p=0.5, seed=7, counter=0)
    z, _ = dropped(torch.ones(64, dtype=torch.float64), "aten", p=0.9, seed=7, counter=0)
    assert set(z.tolist()) == {0.0, float(1 / (1 - Fraction(0.9)))}


def program(ops: Any, x: Any) -> Any:
    """Draw three times; every product is exact, so that both sides agree bit for bit."""
    u = ops.rand_uniform(shape=(3, 5), seed=2**63 + 1)
    mask = ops.bernoulli_mask(shape=(3, 5), keep_prob=0.75, seed=0)
    return ops.mul(ops.dropout(ops.mul(x, u), p=0.5, seed=2**64 - 1), mask)


@pytest.mark.holds("Forget the tape, and not the random counter")
@BOTH
def test_a_session_draws_what_the_reference_draws(provider: str) -> None:
    s, reference = Session(provider=provider, device="cpu"), Reference()
    w, known = s.param([[1.0] * 5] * 3), reference.param(tensor([[1.0] * 5] * 3))
    seen = []
    for step in range(3):
        s.reset_tape()
        reference.reset_tape()
        x, y = s.use(w), reference.use(known)
        out, expected = program(s, x), program(reference, y)
        assert s.value(out).tolist() == reference.value(expected).nested()
        grads = s.backward(s.sum(out))
        theirs = reference.backward(reference.sum(expected))
        assert s.grad(grads, x).tolist() == reference.grad(theirs, y).nested()
        assert s.random_counter == reference.random_counter == 3 * (step + 1)
        seen.append(s.value(out))
    assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[1], seen[2])
    s.random_counter = 3
    assert torch.equal(s.value(program(s, s.use(w))), seen[1])


@BOTH
def test_draws_move_nothing_and_weigh_their_result(provider: str) -> None:
    s = Session(provider=provider, device="cpu")
    before = counters.uploads, counters.downloads
    s.rand_uniform(shape=(100,), seed=7)
    x = s.rand_normal(shape=(4, 4), seed=7)
    s.dropout(x, p=0.5, seed=7)
    assert s._tape.bytes == 4 * (100 + 16 + 16) and len(s._tape) == 3
    assert (counters.uploads, counters.downloads) == before
    assert x.shape == (4, 4) and not x.requires_grad
    assert s.providers() == dict.fromkeys(
        ["rand_uniform", "rand_normal", "dropout"], described(provider)
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_a_draw_comes_in_the_precision_of_its_session(precision: str) -> None:
    s = Session(provider="aten", precision=precision, device="cpu")
    x = s.rand_uniform(shape=(9,), seed=7)
    assert x.dtype is s.options.compute
    exact = torch.tensor([float(uniform(7, 0, k)) for k in range(9)], dtype=torch.float64)
    assert torch.equal(s.value(x), exact.to(x.dtype))


@pytest.mark.holds("Random numbers")
@BOTH
def test_a_refused_draw_takes_no_counter(provider: str) -> None:
    s = Session(provider=provider, device="cpu")
    x = s.input([1.0, 2.0])
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: s.rand_uniform(shape=(-1,), seed=7), r"^rand_uniform C1: "),
        (lambda: s.rand_normal(shape=(2,), seed=2**64), r"^rand_normal C2: "),
        (lambda: s.bernoulli_mask(shape=(2,), keep_prob=math.nan, seed=7), "^bernoulli_mask C4: "),
        (lambda: s.dropout(x, p=0.5, seed=-1), r"^dropout C2: "),
        (lambda: s.dropout(x, p=1.5, seed=7), r"^dropout C1: "),
        (lambda: s.apply("dropout", (x,), {"p": 0.5, "seed": 7, "counter": 0}), "supplies 'count"),
        (lambda: s.apply("rand_normal", (), {"shape": (2,), "seed": 7, "dtype": 1}), "'dtype'"),
    ]
    for call, said in refused:
        with pytest.raises(Rejected, match=said):
            call()
    assert (s.random_counter, len(s._tape)) == (0, 1)
    s.random_counter = 2**64 - 1
    s.dropout(x, p=0.5, seed=7, training=False)
    with pytest.raises(Rejected, match=r"^dropout C3: the call counter"):
        s.dropout(x, p=0.5, seed=7)


@pytest.mark.holds("Forget the tape, and not the random counter")
@pytest.mark.parametrize("bad", [-1, 2**64, 1.0, True, None, "3"])
def test_the_counter_is_a_word_of_64_bits(bad: Any) -> None:
    s = Session(provider="aten", device="cpu")
    with pytest.raises(Rejected, match=r"^random_counter: "):
        s.random_counter = bad
    assert s.random_counter == 0


def test_sessions_count_apart() -> None:
    one, other = (Session(provider="aten", device="cpu") for _ in range(2))
    one.rand_uniform(shape=(2,), seed=7)
    assert (one.random_counter, other.random_counter) == (1, 0)
