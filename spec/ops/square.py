"""Square a tensor entry by entry.

    z[i] = x[i]^2

Reference: IEEE 754-2019, 5.4.1 (multiplication).

>>> from spec.tensor import tensor
>>> op(tensor([3, -4]))
Tensor([9, 16])

A page squares with this op, never with ``mul(d, d)``: a ball around zero then stays non-negative.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import square
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("square", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Square a tensor entry by entry."""
    return x.map(square)


def partials(x: Any) -> tuple[Any]:
    """The square changes at rate 2 x."""
    return (2 * x,)


EDGES = (
    Edge(([-math.inf, math.nan],), ([math.inf, math.nan],), "IEEE", "as multiplication"),
    Edge(([-0.0],), ([0.0],), "IEEE", "the product of equal signs is positive"),
)

ELSEWHERE = Elsewhere("torch.square(x)", "jax.numpy.square")

op = pointwise("square", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
