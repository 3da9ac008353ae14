"""Arrays are read where they lie: every layout and format that a buffer may have, and no other."""

from __future__ import annotations

import math
from array import array
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from spec.buffers import read
from spec.op import Rejected
from spec.tensor import tensor

GRID = np.arange(12).reshape(3, 4)

LAYOUTS = {
    "rows": GRID,
    "columns": GRID.T,
    "every other, from the end": GRID[::-2, ::-1],
    "repeated": np.broadcast_to(np.arange(4), (3, 4)),
    "scalar": np.array(7),
    "no rows": np.zeros((0, 3), int),
    "no columns": np.zeros((2, 0), int),
    "rank 3": np.arange(8).reshape(2, 2, 2).transpose(2, 0, 1),
}


KINDS = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u2", "u8"]
DTYPES = ["?", *(order + kind for order in "<>" for kind in KINDS)]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout_of_every_format_is_read(layout: Any, dtype: str) -> None:
    held = layout.astype(dtype, order="K")
    held.flags.writeable = False
    found = tensor(held)
    kind = {"f": float, "i": int, "u": int, "b": bool}[held.dtype.kind]
    assert found.shape == held.shape
    assert list(found.data) == held.ravel().tolist()
    assert {type(entry) for entry in found.data} <= {kind}


def test_every_binary16_number_is_read_exactly() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    for found, wanted in zip(tensor(every).data, every.astype(float).tolist(), strict=True):
        assert math.copysign(1, found) == math.copysign(1, wanted)
        assert found == wanted or (math.isnan(found) and math.isnan(wanted))


def test_the_standard_library_and_numbers_of_other_libraries_are_read() -> None:
    assert tensor(array("d", [0.5, -0.0])) == tensor([0.5, -0.0])
    assert tensor(memoryview(bytes(range(4))).cast("B", (2, 2))) == tensor([[0, 1], [2, 3]])
    found = tensor([np.float32(0.5), np.float64(2), np.int8(-3), np.True_, 1.0, Fraction(1, 3)])
    assert found == tensor([0.5, 2.0, -3, True, 1.0, Fraction(1, 3)])
    assert [type(entry) for entry in found.data] == [float, float, int, bool, float, Fraction]
    assert type(tensor(np.float64(2)).data[0]) is float


def test_what_is_read_is_a_copy() -> None:
    held = np.array([1.0, 2.0])
    found = tensor(held)
    held[0] = 9.0
    assert found == tensor([1.0, 2.0])


@pytest.mark.parametrize(
    ("bad", "came"),
    [
        (np.array([1j]), "ndarray of complex128 in the format 'Zd'"),
        (np.longdouble(1), "longdouble of .* in the format 'g'"),
        (np.array([None]), "ndarray of object in the format 'O'"),
        (np.array(["a"]), "ndarray of <U1 in the format '1w'"),
        (np.array(["2020"], "M8[Y]"), r"ndarray of datetime64\[Y\]"),
        (np.zeros(2, [("a", "f4")]), "ndarray of .* in the format 'T{f:a:}'"),
        (memoryview(b"abc").cast("c"), "memoryview in the format 'c'"),
        (torch.tensor([1.0], dtype=torch.bfloat16), "Tensor of torch.bfloat16: .*"),
    ],
)
def test_other_formats_are_refused_by_name(bad: Any, came: str) -> None:
    rule = "an array of float64, float32, float16, integers and truth values is read, and of others"
    for ask in (lambda: tensor(bad), lambda: read(bad)):
        with pytest.raises(Rejected, match=rf"^tensor: {rule} .*; got {came}$"):
            ask()


def test_an_array_in_a_list_is_refused() -> None:
    with pytest.raises(Rejected, match=r"^tensor: an array is read alone, not in a list; got ndar"):
        tensor([np.array([1.0]), np.array([2.0])])


@pytest.mark.parametrize(
    ("bad", "came"),
    [
        ("hello", "str"),
        (None, "NoneType"),
        ([None, 1.0], "NoneType"),
        ([1.0, "2"], "str"),
        ([1j], "complex"),
        (range(3), "range"),
        ({1: 2.0}, "dict"),
        ([tensor(1.0)], "spec.tensor.Tensor"),
    ],
)
def test_what_is_no_number_is_refused_with_what_is_read(bad: Any, came: str) -> None:
    rule = r"^tensor: entries are floats, ints, Fractions, .*bfloat16 has no buffer format"
    with pytest.raises(Rejected, match=rf"{rule}.*; got {came}$"):
        tensor(bad)
