# pyright: strict
"""What the type checkers know of shapes: every line holds for mypy and for pyright, strictly."""

from __future__ import annotations

from typing import Any, Literal, assert_type

from spec.ops.add import value as add
from spec.ops.detach import value as detach
from spec.ops.div import value as div
from spec.ops.exp import value as exp
from spec.ops.matmul import value as matmul
from spec.ops.relu import value as relu
from spec.ops.reshape import value as reshape
from spec.ops.sum import value as sum_
from spec.tensor import Tensor, tabulate, zip_map

L1 = Literal[1]
L2 = Literal[2]
L3 = Literal[3]
L4 = Literal[4]


def scalar_worlds_and_shapes_are_kept(x: Tensor[float, L2, L3], y: Tensor[float, L2, L3]) -> None:
    assert_type(x.shape, tuple[L2, L3])
    assert_type(x.data, tuple[float, ...])
    assert_type(x[0, 0], float)
    assert_type(x.map(str), Tensor[str, L2, L3])
    assert_type(zip_map(complex, x, y), Tensor[complex, L2, L3])


def pointwise_ops_keep_the_shape(x: Tensor[float, L2, L3], y: Tensor[float, L2, L3]) -> None:
    assert_type(add(x, y), Tensor[float, L2, L3])
    assert_type(div(add(x, y), exp(y)), Tensor[float, L2, L3])
    assert_type(relu(detach(x)), Tensor[float, L2, L3])


def products_contract(x: Tensor[float, L2, L3], y: Tensor[float, L3, L4]) -> None:
    assert_type(matmul(x, y), Tensor[float, L2, L4])
    assert_type(add(matmul(x, y), matmul(x, y)), Tensor[float, L2, L4])


def extents_from_values_are_ints(n: int, x: Tensor[float, L2, L3]) -> None:
    def entry(i: int, j: int) -> float:
        return 1.0 if i == j else 0.0

    square = tabulate((n, n), entry)
    assert_type(square, Tensor[float, int, int])
    assert_type(matmul(square, square), Tensor[float, int, int])
    assert_type(reshape(x, shape=(n,)), Tensor[float, *tuple[Any, ...]])


def sums_over_all_axes_are_scalars(
    x: Tensor[float, L2], y: Tensor[float, L2, L3], z: Tensor[float, L2, L3, L4]
) -> None:
    assert_type(sum_(x), Tensor[float])
    assert_type(sum_(y), Tensor[float])
    assert_type(sum_(z), Tensor[float])
    assert_type(sum_(x, axes=(0,)), Tensor[float])
    assert_type(sum_(x, axes=(-1,)), Tensor[float])


def sums_over_one_axis_drop_it(y: Tensor[float, L2, L3], z: Tensor[float, L2, L3, L4]) -> None:
    assert_type(sum_(y, axes=(0,)), Tensor[float, L3])
    assert_type(sum_(y, axes=(1,)), Tensor[float, L2])
    assert_type(sum_(y, axes=(-1,)), Tensor[float, L2])
    assert_type(sum_(z, axes=(0,)), Tensor[float, L3, L4])
    assert_type(sum_(z, axes=(1,)), Tensor[float, L2, L4])
    assert_type(sum_(z, axes=(-1,)), Tensor[float, L2, L3])


def sums_may_keep_the_axis(y: Tensor[float, L2, L3]) -> None:
    assert_type(sum_(y, axes=(0,), keepdims=True), Tensor[float, L1, L3])
    assert_type(sum_(y, axes=(-1,), keepdims=True), Tensor[float, L2, L1])


def axes_from_values_give_unknown_shapes(axis: int, y: Tensor[float, L2, L3]) -> None:
    assert_type(sum_(y, axes=(axis,)), Tensor[float, *tuple[Any, ...]])


def what_is_unknown_fits_everything(y: Tensor[float, *tuple[Any, ...]]) -> Tensor[float, L2, L3]:
    return y
