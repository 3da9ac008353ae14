# pyright: strict
"""Programs that no checker may accept: each line marked as an error is one, and no other line."""

from __future__ import annotations

from typing import Literal

from spec.ops.add import value as add
from spec.ops.div import value as div
from spec.ops.matmul import value as matmul
from spec.ops.mul import value as mul
from spec.ops.sub import value as sub
from spec.ops.sum import value as sum_
from spec.tensor import Tensor, zip_map

L2 = Literal[2]
L3 = Literal[3]
L4 = Literal[4]


def shapes_of_a_sum_are_equal(x: Tensor[float, L2, L3], y: Tensor[float, L3, L2]) -> None:
    add(x, y)  # error
    sub(x, y)  # error
    mul(x, y)  # error
    div(x, y)  # error
    zip_map(complex, x, y)  # error
    add(x, x)


def ranks_of_a_sum_are_equal(x: Tensor[float, L2, L3], y: Tensor[float, L3]) -> None:
    add(x, y)  # error
    add(y, y)


def inner_extents_are_equal(x: Tensor[float, L2, L3], y: Tensor[float, L4, L2]) -> None:
    matmul(x, y)  # error
    matmul(x, x)  # error
    matmul(y, x)


def products_are_of_matrices(x: Tensor[float, L2, L3], v: Tensor[float, L3]) -> None:
    matmul(x, v)  # error
    matmul(v, x)  # error


def a_product_has_its_own_shape(
    x: Tensor[float, L2, L3], y: Tensor[float, L3, L4]
) -> Tensor[float, L3, L3]:
    return matmul(x, y)  # error


def a_reduction_drops_its_axis(x: Tensor[float, L2, L3], row: Tensor[float, L3]) -> None:
    add(sum_(x, axes=(0,)), row)
    add(sum_(x, axes=(1,)), row)  # error
    add(sum_(x), row)  # error


def a_kept_axis_has_extent_1(x: Tensor[float, L2, L3]) -> None:
    add(sum_(x, axes=(1,), keepdims=True), x)  # error


def a_reduction_is_no_other_shape(x: Tensor[float, L2, L3, L4]) -> Tensor[float, L2, L3]:
    dropped = sum_(x, axes=(0,))
    return dropped  # error


def an_entry_has_its_type(x: Tensor[float, L2]) -> str:
    return x[0]  # error


def a_tensor_does_not_change(x: Tensor[float, L2]) -> None:
    x[0] = 1.0  # error
