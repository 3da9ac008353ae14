"""Shapes, axes and tensors: exact arithmetic on indices, and clear refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec.refusals import Rejected
from spec.shape import (
    broadcast,
    broadcasts_to,
    indices,
    normalize_axis,
    offset,
    reduced,
    size,
    strides,
    unravel,
    windows,
)
from spec.tensor import Tensor, is_tensor, tabulate, tensor, zip_map

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
FULL = st.lists(st.integers(1, 4), max_size=4).map(tuple)
NARROW = st.lists(st.integers(0, 2), max_size=3).map(tuple)


@settings(max_examples=100)
@given(shape=FULL)
def test_positions_and_indices_are_each_others_inverse(shape) -> None:
    assert [offset(shape, index) for index in indices(shape)] == list(range(size(shape)))
    assert [unravel(shape, k) for k in range(size(shape))] == list(indices(shape))
    assert all(
        offset(shape, i) == sum(a * b for a, b in zip(i, strides(shape), strict=True))
        for i in indices(shape)
    )


@settings(max_examples=200)
@given(left=NARROW, right=NARROW)
def test_broadcasting_is_numpys(left, right) -> None:
    try:
        expected = np.broadcast_shapes(left, right)
    except ValueError:
        expected = None
    assert broadcast(left, right) == expected
    try:
        fits = np.broadcast_to(np.zeros(left), right).shape == right
    except ValueError:
        fits = False
    assert broadcasts_to(left, right) == fits


@settings(max_examples=100)
@given(shape=SHAPES, data=st.data())
def test_reduced_shapes_are_numpys(shape, data) -> None:
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1)))) if shape else ()
    for keepdims in (False, True):
        expected = np.zeros(shape).sum(axis=axes, keepdims=keepdims).shape
        assert reduced(shape, axes, keepdims) == expected


def test_an_axis_is_an_int_in_range() -> None:
    assert [normalize_axis(a, 2) for a in (-3, -2, -1, 0, 1, 2)] == [None, 0, 1, 0, 1, None]
    assert [normalize_axis(a, 2) for a in (True, 1.0, None, "0")] == [None] * 4


@given(extent=st.integers(0, 9), kernel=st.integers(0, 4), stride=st.integers(0, 3))
def test_windows_are_counted_one_by_one(extent: int, kernel: int, stride: int) -> None:
    for padding in (0, 1, 2):
        starts = range(0, extent + 2 * padding - kernel + 1, stride) if kernel and stride else ()
        assert windows(extent, kernel, stride, padding) == len(starts)


@settings(max_examples=100)
@given(shape=SHAPES)
def test_a_tensor_is_its_function(shape) -> None:
    x = tabulate(shape, lambda *i: i)
    assert x.shape == shape and x.rank == len(shape)
    assert [x[i] for i in indices(shape)] == list(x.data) == list(indices(shape))
    assert x.map(len).data == (len(shape),) * size(shape)
    assert zip_map(lambda a, b: a == b, x, x).data == (True,) * size(shape)


def test_nested_lists_are_read_and_written() -> None:
    for nested in (1.0, [], [[], []], [[1, 2], [3, 4]], [[[5]]]):
        assert tensor(nested).nested() == nested
    assert tensor([[1, 2], [3, 4]]) == Tensor((2, 2), (1, 2, 3, 4))
    assert tensor(((1, 2), (3, 4))) == tensor([[1, 2], [3, 4]])


@pytest.mark.parametrize("ragged", [[[1], [2, 3]], [1, [2]], [[1], 2], [[[1]], [[1, 2]]], [[], 1]])
def test_ragged_lists_are_refused(ragged) -> None:
    with pytest.raises(ValueError, match=r"^tensor: nested lists of one "):
        tensor(ragged)


def test_the_number_of_entries_is_the_size_of_the_shape() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\) has 6 entries; got 5"):
        Tensor((2, 3), range(5))


@pytest.mark.parametrize("index", [2, -1, (0, 0), ()])
def test_an_index_lies_in_the_shape(index) -> None:
    with pytest.raises(Rejected, match="shape"):
        tensor([1, 2])[index]


def test_a_tensor_does_not_change() -> None:
    entries = [1, 2]
    x = Tensor((2,), entries)
    entries[0] = 9
    assert x == tensor([1, 2])
    with pytest.raises(TypeError):
        x[0] = 9  # type: ignore[index]


def test_equality_compares_shapes_and_entries() -> None:
    assert tensor([1, 2]) == tensor([1.0, 2.0])
    assert hash(tensor([1, 2])) == hash(tensor([1.0, 2.0]))
    assert tensor([1, 2]) != tensor([[1, 2]])
    assert tensor([]) != tensor([[]])
    assert tensor(1) != 1
    assert tensor(math.nan) != tensor(float("nan"))
    assert is_tensor(tensor(1)) and not is_tensor([1])


class Symbol:
    """An extent that is no int."""

    def __repr__(self) -> str:
        return "n"


def test_a_symbolic_shape_leaves_the_rule() -> None:
    n = Symbol()
    x = tabulate((2, n), lambda i, j: (i, j))
    assert x[1, "k"] == (1, "k")
    assert x.map(lambda pair: pair[1])[0, "k"] == "k"
    assert zip_map(lambda a, b: a + b, x, x)[0, "k"] == (0, "k", 0, "k")
    assert repr(x) == "Tensor(symbolic shape (2, n))"
    with pytest.raises(ValueError, match="cannot list its entries"):
        _ = x.data


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
def test_a_tensor_is_an_array_of_its_shape(dtype: str) -> None:
    for shape in ((), (3,), (2, 3), (0, 2)):
        array = np.ones(shape, dtype)
        found = np.array(tensor(array))
        assert found.shape == shape and (found == array).all()
        assert found.dtype == dtype or not found.size
    rounded = np.asarray(tensor([0.1]), dtype=np.float32)
    assert rounded.dtype == np.float32 and rounded[0] == np.float32(0.1)


def test_what_numpy_has_no_type_for_stays_as_it_is() -> None:
    found = np.array(tensor([[Fraction(1, 3)], [Fraction(2)]]))
    assert found.shape == (2, 1) and found[0, 0] == Fraction(1, 3)
    assert np.add(found, 1)[1, 0] == 3
    with pytest.raises(Rejected, match=r"^tensor: an array of a tensor is a copy; got copy=False"):
        np.array(tensor([1.0]), copy=False)
