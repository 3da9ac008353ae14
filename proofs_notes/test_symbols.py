"""The world of symbols says of every size what the other worlds say of one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import sympy

from equivalence.worlds.symbols import (
    entries,
    extent,
    extent_of,
    height,
    index,
    labels,
    variable,
)
from proofs_notes.instances import instance
from spec import scalar
from spec.ops import OPS
from spec.shape import indices
from spec.tensor import tensor

N, M, K = extent("n"), extent("m"), extent("k")
# Rows of variance 9 and 16, so that with eps = 0 every root is a fraction.
X = [[0, 6], [9, 1]]
SIZES = {"n": 2, "m": 2, "k": 3}
GIVEN: dict[str, Any] = {**SIZES, "x": X, "gamma": [2, 3], "beta": [5, 7], "label": [1, 0]}
GIVEN |= {"y": [[1, 2, 4], [8, 16, 32]], "b": [3, 1, 4], "w": [[1, 2], [4, 8], [0, 5]]}
SHAPES = {"x": (N, M), "y": (M, K), "w": (K, M), "b": (K,), "gamma": (M,), "beta": (M,)}

PAGES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "add": (("x", "x"), {}),
    "relu": (("x",), {}),
    "square": (("x",), {}),
    "sum": (("x",), {"axes": (0,)}),
    "max": (("x",), {"axes": (1,), "keepdims": True}),
    "permute": (("y",), {"axes": (1, 0)}),
    "take": (("x", "label"), {"axis": 1}),
    "scatter_add": (("x", "label", "x"), {"axis": 1}),
    "slice": (("y",), {"axis": 1, "start": 1, "length": 2}),
    "concat": (("x", "y", "x"), {"axis": 1}),
    "matmul": (("x", "y"), {}),
    "linear": (("x", "w", "b"), {}),
    "layer_norm": (("x", "gamma", "beta"), {"eps": 0}),
    "nll_loss": (("x", "label"), {}),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_at_all_sizes_is_the_page_at_one(name: str) -> None:
    inputs, attributes = PAGES[name]
    op = OPS[name]
    symbols = [labels("label", (N,), M) if i == "label" else entries(i, SHAPES[i]) for i in inputs]
    numbers = [tensor(GIVEN[i]) if i == "label" else tensor(GIVEN[i]).map(Fraction) for i in inputs]
    everywhere, here = (op.value(*x, **attributes) for x in (symbols, numbers))
    shape = tuple(instance(n, GIVEN) for n in everywhere.shape)
    assert shape == here.shape
    assert all(instance(everywhere[i], GIVEN) == here[i] for i in indices(here.shape))


def test_variables_are_named_by_height_and_capture_nothing() -> None:
    x = entries("x", (N, M))
    inner = scalar.sum_over(M, lambda k: x[0, k])
    double = scalar.sum_over(N, lambda i: scalar.sum_over(M, lambda k: x[i, k]) * x[i, 0])
    assert [str(limits[0]) for limits in inner.limits] == ["_1"]
    assert [str(limits[0]) for limits in double.limits] == ["_2"]
    assert height(double) == 2
    assert variable(2) not in double.function.atoms(sympy.Sum).pop().variables
    assert double == scalar.sum_over(N, lambda j: scalar.sum_over(M, lambda i: x[j, i]) * x[j, 0])


def test_ranges_are_known() -> None:
    p, label = index("p", N), labels("label", (N,), M)
    assert (extent_of(p), extent_of(label[p])) == (N, M)
    assert extent_of(p + 1) is None
    assert extent_of(sympy.Integer(0)) is None
    assert extent_of(scalar.max_over(N, lambda k: entries("x", (N,))[k])) is None


def test_constants_belong_to_the_world() -> None:
    a = entries("a", ())[()]
    assert scalar.divide(1, a) * a == 1
    assert scalar.lift(a, Fraction(1, 3)) == sympy.Rational(1, 3)
    assert Fraction(1, 2) * a == a / 2
    assert scalar.maximum(a, 0) == sympy.Max(a, 0)
    assert scalar.absolute(-a) == abs(a)
    assert scalar.sum_over(3, lambda k: a + k) == 3 * a + 3
    assert scalar.sum_over((2, N), lambda i, k: a * i).has(N)


def test_only_the_literal_zero_is_zero() -> None:
    a = entries("a", ())[()]
    assert scalar.is_zero(a) is False
    assert scalar.is_zero(a - a) is True
    assert scalar.zero_like(a) == 0


def test_choices_are_decided_where_they_can_be() -> None:
    positive, open_ = entries("a", (), positive=True)[()], entries("b", ())[()]
    assert scalar.select(scalar.less(0, positive), 1, 2) == 1
    assert scalar.select(scalar.less(positive, 0), 1, 2) == 2
    assert scalar.select(scalar.equal(open_, open_), 1, 2) == 1
    choice = scalar.select(scalar.less(open_, 0), open_, 2)
    assert [instance(choice, {"b": b}) for b in (-3, 0, 5)] == [-3, 2, 2]


def test_the_largest_of_given_entries() -> None:
    x = entries("x", (3,))
    largest = OPS["max"].value(x)[()]
    assert instance(largest, {"x": [4, 9, 2]}) == 9
    assert scalar.max_over(2, lambda k: sympy.Integer(k)) == 1
