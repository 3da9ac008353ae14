"""Subtract two tensors entry by entry.

    z[i] = x[i] - y[i]

C1  all shapes are equal: a primitive never broadcasts.

Reference: IEEE 754-2019, 5.4.1 (subtraction).

>>> from spec.tensor import tensor
>>> op(tensor([5, 7]), tensor([1, 10]))
Tensor([4, -3])
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
    return same_shape("sub", x, y)


def value(x: Tensor[A, *Dims], y: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Subtract two tensors entry by entry."""
    return zip_map(operator.sub, x, y)


def partials(x: Any, y: Any) -> tuple[Any, Any]:
    """The difference changes at rates 1 and -1."""
    return 1, -1


EDGES = (
    Edge(([math.inf], [math.inf]), ([math.nan],), "IEEE", "equal infinities have no difference"),
    Edge(([1.0], [1.0]), ([0.0],), "IEEE", "an exact cancellation is +0"),
    Edge(([], []), ([],), "IEEE", "an empty axis stays empty"),
)

REFUSED = UNEQUAL

ELSEWHERE = Elsewhere("torch.sub(x, y)", "jax.numpy.subtract")

op = pointwise("sub", type_rule, value, partials, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE)
