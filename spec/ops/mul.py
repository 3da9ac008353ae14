"""Multiply two tensors entry by entry.

    z[i] = x[i] * y[i]

C1  all shapes are equal: a primitive never broadcasts.

Reference: IEEE 754-2019, 5.4.1 (multiplication).

>>> from spec.tensor import tensor
>>> op(tensor([2, 3]), tensor([10, 20]))
Tensor([20, 60])
>>> op.vjp((tensor([2]), tensor([10])), tensor([1]))
(Tensor([10]), Tensor([2]))
"""

from __future__ import annotations

import math
import operator
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import UNEQUAL, pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.tensor import Tensor, zip_map

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type, y: Type) -> Type:
    """Accept two tensors of one shape (C1)."""
    return same_shape("mul", x, y)


def value(x: Tensor[A, *Dims], y: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Multiply two tensors entry by entry."""
    return zip_map(operator.mul, x, y)


def partials(x: Any, y: Any) -> tuple[Any, Any]:
    """Each factor is the rate by which the other one counts."""
    return y, x


EDGES = (
    Edge(([math.inf], [0.0]), ([math.nan],), "IEEE", "infinity times zero has no value"),
    Edge(([-1.0], [0.0]), ([-0.0],), "IEEE", "the sign of a product is the product of the signs"),
    Edge(([], []), ([],), "IEEE", "an empty axis stays empty"),
)

REFUSED = UNEQUAL

ELSEWHERE = Elsewhere("torch.mul(x, y)", "jax.numpy.multiply")

op = pointwise("mul", type_rule, value, partials, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE)
