"""x[...] means what it means in NumPy, on a device tape; so do reshape, T and the totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given

from fast.errors import Rejected
from fast.indexing import OutOfRange
from fast.ref import Ref
from fast.session import Session
from tests.indices import ARRAYS_AND_INDICES, Index, by_numpy


def ref(array: Any) -> Ref:
    return Session(provider="aten").input(torch.from_numpy(array.astype(np.float32)))


def plain(x: Ref) -> tuple[tuple[int, ...], list[float]]:
    value = x.session.value(x)
    return tuple(value.shape), value.flatten().tolist()


@given(ARRAYS_AND_INDICES)
def test_a_part_is_numpys(case: tuple[Any, Index]) -> None:
    array, index = case
    if not array.size:
        return
    expected = by_numpy(array, index)
    if expected is None:
        with pytest.raises(Rejected):
            ref(array)[index]
    else:
        assert plain(ref(array)[index]) == (expected.shape, expected.ravel().tolist())


def test_what_is_no_index_is_refused_by_what_would_be_one() -> None:
    x = ref(np.ones((2, 3)))
    wrong: tuple[Any, ...] = (True, "a", 1.0, {0}, (0, True), slice(0.5))
    for index in wrong:
        with pytest.raises(Rejected, match=r"^index: an index is an int, a slice, None or an Ell"):
            x[index]
    for index in ([True, False], np.array([True, False]), (slice(None), [True, False, True])):
        with pytest.raises(Rejected, match=r"^index: a mask chooses by `where`"):
            x[index]
    for index in (([0], [1]), (0, [1]), ([0], 1)):
        with pytest.raises(
            Rejected, match=r"^index: a list or tensor of integers indexes one axis"
        ):
            x[index]
    with pytest.raises(Rejected, match=r"^index: there is at most one Ellipsis; got 2 of them$"):
        x[..., ...]
    with pytest.raises(Rejected, match=r"^index: the step of a slice is not 0; got slice"):
        x[::0]


def test_a_place_that_there_is_not_ends_a_loop() -> None:
    x = ref(np.arange(6.0).reshape(2, 3))
    for index in (2, -3, (0, 3), (0, 0, 0)):
        with pytest.raises(OutOfRange) as caught:
            x[index]
        assert isinstance(caught.value, IndexError) and isinstance(caught.value, Rejected)
    assert [plain(row)[1] for row in x] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


METHODS: dict[str, Callable[[Any], Any]] = {
    "abs": abs,
    "power": lambda x: x**2,
    "T": lambda x: x.T,
    "reshape of extents": lambda x: x.reshape(3, -1),
    "reshape of a tuple": lambda x: x.reshape((-1,)),
    "sum of all": lambda x: x.sum(),
    "sum of one": lambda x: x.sum(-1),
    "sum of two": lambda x: x.sum((0, 1), keepdims=True),
    "mean": lambda x: x.mean(axis=0),
    "max": lambda x: x.max(axis=1, keepdims=True),
    "min": lambda x: x.min(axis=0),
    "argmax of all": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(axis=-1, keepdims=True),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_numpys(name: str) -> None:
    array = np.array([[1.0, 5.0, -2.0], [4.0, 0.0, 8.0]])
    expected = np.asarray(METHODS[name](array))
    assert plain(METHODS[name](ref(array))) == (expected.shape, expected.ravel().tolist())


def test_gradients_pass_through_a_part() -> None:
    s = Session(provider="aten")
    x = s.input(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    found = s.backward((x[::-1, 0] * x[:, 1]).sum())
    assert s.grad(found, x).tolist() == [[4.0, 3.0], [2.0, 1.0]]


def test_one_extent_may_be_left_open() -> None:
    s = Session(provider="aten")
    x = s.input(torch.ones(6))
    assert s.reshape(x, shape=(-1, 3)).shape == (2, 3)
    for shape in ((-1, 4), (-1, -1), (-1, 0)):
        with pytest.raises(Rejected, match=r"^reshape C2: one extent may be -1, where the others"):
            s.reshape(x, shape=shape)


def test_parts_are_torchs() -> None:
    array = np.arange(14.0).reshape(2, 7)
    for lengths, axis in ((3, 1), (7, -1), (9, 1), ([2, 0, 5], 1), (1, 0)):
        expected = torch.split(torch.from_numpy(array), lengths, axis)
        found = ref(array).split(lengths, axis)
        assert [plain(x) for x in found] == [
            (tuple(x.shape), x.flatten().tolist()) for x in expected
        ]
    for count, axis in ((3, 1), (7, 1), (9, 1), (4, 1), (2, 0)):
        expected = torch.chunk(torch.from_numpy(array), count, axis)
        assert [plain(x)[0] for x in ref(array).chunk(count, axis)] == [
            tuple(x.shape) for x in expected
        ]


def test_gradients_pass_through_parts() -> None:
    s = Session(provider="aten")
    array = np.arange(5.0)
    x = s.input(torch.from_numpy(array.astype(np.float32)), requires_grad=True)
    first, _, last = s.split(x, [2, 1, 2])
    assert s.grad(s.backward((first * last).sum()), x).tolist() == [3.0, 4.0, 0.0, 0.0, 1.0]
    assert [part.shape for part in s.chunk(x[5:], 3)] == [(0,)] * 3


def test_what_cuts_nothing_apart_is_refused() -> None:
    s = Session(provider="aten")
    array = np.arange(6.0)
    x = s.input(torch.from_numpy(array.astype(np.float32)))
    wrong: tuple[Any, ...] = (0, -1, 2.0, True, [4, 1], [7, -1], [3.0, 3.0], None)
    for lengths in wrong:
        with pytest.raises(Rejected, match=r"^split C2: lengths are an integer >= 1, or several"):
            s.split(x, lengths)
    for axis in (1, -2, True):
        with pytest.raises(Rejected, match=r"^split C1: the axis lies in \[-1, 1\)"):
            s.chunk(x, 2, axis=axis)
    for count in (0, 1.5, True):
        with pytest.raises(Rejected, match=r"^chunk C1: the count is an integer >= 1"):
            x.chunk(count)  # type: ignore[arg-type]
    with pytest.raises(Rejected, match=r"^split"):
        s.split([1.0], 1)  # type: ignore[type-var]


def test_the_largest_come_with_their_places() -> None:
    s = Session(provider="aten")
    numbers = [[1.0, 5.0, 5.0], [7.0, 0.0, 7.0]]
    x = s.input(torch.tensor(numbers), requires_grad=True)
    for find, expected, wanted in (
        (s.max_with_indices, [5.0, 7.0], [[0.0, 10.0, 0.0], [14.0, 0.0, 0.0]]),
        (s.min_with_indices, [1.0, 0.0], [[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    ):
        found, places = find(x, axis=-1)
        lost, named = find(x, axis=1, keepdims=True)
        assert plain(found) == ((2,), expected) and plain(lost) == ((2, 1), expected)
        assert plain(places)[0] == (2,) and plain(named)[0] == (2, 1)
        assert [row[at] for row, at in zip(numbers, plain(places)[1], strict=True)] == expected
        assert plain(places)[1] == plain(named)[1]
        assert s.grad(s.backward(s.sum(found * found)), x).tolist() == wanted


def test_places_are_indices_of_other_ops() -> None:
    s = Session(provider="aten")
    x = s.input(torch.tensor([[1.0, 5.0], [7.0, 7.0]]))
    places = x.argmax(axis=1)
    assert plain(s.take(x, places, axis=0)) == ((2, 2), [7.0, 7.0, 1.0, 5.0])
    assert plain(s.one_hot(places, classes=2)) == ((2, 2), [0.0, 1.0, 1.0, 0.0])
    with pytest.raises(Rejected, match=r"^argmax C1: the axis lies in \[-2, 2\)"):
        x.argmax(axis=2)
