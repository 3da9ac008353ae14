"""The crossing: where data may go, what is no data, and numbers that are rounded once."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
import torch

from fast import Rejected, Session, Unavailable
from fast.device import bridge
from fast.device.buffer import Buffer

HARD = 1 + Fraction(1, 2**24) + Fraction(1, 2**60)
"""Nearer to the fp32 above 1 than to 1, and by way of a double a tie that rounds to 1."""


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (HARD, "fp32"),
        (sympy.Rational(HARD.numerator, HARD.denominator), "fp32"),
        (np.longdouble(1) + np.longdouble(2) ** -24 + np.longdouble(2) ** -60, "fp32"),
        (1 + 2.0**-24 + 2.0**-40, "fp32"),
        (np.float64(1 + 2.0**-24 + 2.0**-40), "fp32"),
    ],
)
def test_a_number_of_every_kind_is_rounded_once(number: Any, dtype: str) -> None:
    expected = 1 + 2.0**-23
    s = Session(provider="aten", precision=dtype, device="cpu")
    assert bridge.upload([number], dtype).tensor.tolist() == [expected]
    assert s.value(s.constant(number)).item() == expected
    assert s.value(s.input(number)).item() == expected


def test_floats_are_rounded_as_their_fractions_are() -> None:
    rng = random.Random(0)
    largest = float(torch.finfo(torch.float32).max)
    numbers = [largest, largest + 2.0**102, largest + 2.0**103, 1e39, 5e-324, 2.0**-149, 2.0**-150]
    numbers += [1.5 * 2.0**-150, 2.0**-150 * (1 + 2.0**-50), 1 + 2.0**-24, 1 + 3 * 2.0**-24]
    numbers += [rng.uniform(-2, 2) * 2.0 ** rng.randint(-160, 130) for _ in range(500)]
    for number in numbers:
        for sign in (1, -1):
            found = bridge.round_number(sign * number, torch.float32)
            assert found == bridge.round_number(Fraction(sign * number), torch.float32), number


def test_a_number_is_read_once_as_a_double_too() -> None:
    hard = 1 + Fraction(1, 2**53) + Fraction(1, 2**90)
    assert bridge.to_float(sympy.Rational(hard.numerator, hard.denominator)) == 1 + 2.0**-52
    assert bridge.to_float(sympy.Integer(2**60 + 1)) == 2.0**60


def test_what_is_not_finite_and_the_sign_of_zero_come_through() -> None:
    numbers = [kind(text) for kind in (float, np.float64, np.float32, np.longdouble)
               for text in ("nan", "inf", "-inf", "-0.0", "0.0")]  # fmt: skip
    for dtype in ("fp32", "bf16", "fp64"):
        found = bridge.upload(numbers, dtype).tensor.reshape(4, 5)
        assert found.isnan().tolist() == [[True] + [False] * 4] * 4
        assert found[:, 1:].tolist() == [[float("inf"), -float("inf"), 0.0, 0.0]] * 4
        assert torch.signbit(found[:, 3:]).tolist() == [[True, False]] * 4


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_a_missing_device_is_refused() -> None:
    with pytest.raises(Unavailable, match="upload: no CUDA device is present; device 'cpu'"):
        bridge.upload([1.0], device="cuda")


@pytest.mark.parametrize("device", ["foo", object(), 1.5, ["cpu"]])
def test_what_names_no_device_is_refused(device: Any) -> None:
    with pytest.raises(Rejected, match=r"upload: .* names no device; try 'cpu' or 'cuda'"):
        bridge.upload([1.0], device=device)


def test_a_device_without_memory_of_ours_is_refused() -> None:
    with pytest.raises(Unavailable, match="upload: device meta is not supported"):
        bridge.upload([1.0], device="meta")


def test_an_unknown_dtype_is_refused_whatever_it_is() -> None:
    for dtype in ("int8", [], torch.float32):
        with pytest.raises(Rejected, match=r"upload: unknown dtype .*; there are fp32"):
            bridge.upload([1.0], dtype)  # type: ignore[arg-type]


def test_what_holds_no_dense_numbers_is_refused() -> None:
    sparse, absent = torch.eye(2).to_sparse(), torch.ones(2, device="meta")
    s = Session(provider="aten", device="cpu")
    w = s.param([[1.0, 2.0], [3.0, 4.0]])
    for given, due in ((sparse, "sparse_coo"), (absent, "meta")):
        for use in (bridge.upload, s.input, s.const, s.param, s.upload, w.set, w.set_device):
            with pytest.raises(Rejected, match=f"{due}|shape"):
                use(given)
        with pytest.raises(Rejected, match=due):
            bridge.upload(given)
        with pytest.raises(Rejected, match=due):
            bridge.to_indices(given.long(), torch.device("cpu"))
        with pytest.raises(Rejected, match=due):
            bridge.to_mask(given.bool(), torch.device("cpu"))
    assert (len(s.params), w.version, len(s._tape)) == (1, 0, 0)


@pytest.mark.parametrize("source", [[1.0], 1.0, None, np.ones(2)])
def test_only_what_is_on_a_device_is_downloaded(source: Any) -> None:
    with pytest.raises(Rejected, match="download: a device buffer or a torch tensor is needed"):
        bridge.download(source)


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor(1j), np.array([1j]), np.complex64(1), torch.tensor(True), np.array(["1"]),
        np.array([None]), np.array([True]),
    ],
)  # fmt: skip
def test_one_number_that_is_of_another_world_is_refused(value: Any) -> None:
    with pytest.raises(Rejected, match="numbers of the world"):
        bridge.to_float(value)


@pytest.mark.filterwarnings("ignore::fast.errors.Unmoved")
@pytest.mark.parametrize("wrap", [lambda t: t, Buffer])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_of_autograd_comes_along(wrap: Any, dtype: torch.dtype) -> None:
    s = Session(provider="aten", device="cpu")
    given = wrap(torch.ones(2, dtype=dtype, requires_grad=True) * 2)
    w = s.param(given)
    x, y = s.use(w), s.input(given, requires_grad=True)
    held = [s.upload(given).tensor, bridge.upload(given).tensor, w.value(), w.mirror().tensor]
    w.set(given)
    held += [w.value(), s._tape.values[y.id], s._tape.values[s.const(given).id]]
    s.reset_tape()
    for form in (s.backward, s.backward_dense):
        for pick in (s.mul, lambda x, y: x, lambda x, y: y):
            x, y = s.use(w), s.input([1.0, 1.0], requires_grad=True)
            grads = form(pick(x, y), given)
            held += [grads[x].tensor, grads[y].tensor]
            s.sgd_step(0.5, grads)
            s.reset_tape()
    held += [bridge.download(given), s.store.masters.flat]
    if isinstance(given, Buffer):
        held.append(given.owned_copy().tensor)
    assert not any(tensor.requires_grad for tensor in held)


def test_set_device_takes_the_numbers_and_not_their_graph() -> None:
    s = Session(provider="aten", device="cpu")
    w, other = s.param([1.0, 2.0]), s.param([5.0])
    leaf = torch.tensor([3.0, 4.0], requires_grad=True)
    for given in (leaf, leaf * 2, torch.nn.Parameter(leaf.detach()), Buffer(leaf * 3)):
        w.set_device(given)
        assert not s.store.masters.flat.requires_grad
        assert not w.mirror().tensor.requires_grad
    assert w.value().tolist() == [9.0, 12.0]
    s.sgd_step(1.0, s.backward(s.sum(s.add(s.use(w), s.input([1.0, 1.0])))))
    assert (w.value().tolist(), other.value().tolist()) == ([8.0, 11.0], [5.0])
