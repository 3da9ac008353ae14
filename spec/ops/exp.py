"""Raise e to the power of each entry.

    z[i] = e^x[i]

Reference: IEEE 754-2019, 9.2 (exp).

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1000.0]))
Tensor([1.0, inf])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import exp
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("exp", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Raise e to the power of each entry."""
    return x.map(exp)


def partials(x: Any) -> tuple[Any]:
    """The exponential is its own rate of change."""
    return (exp(x),)


EDGES = (
    Edge(([0.0, -0.0],), ([1.0, 1.0],), "IEEE", "e^0 = 1"),
    Edge(([math.inf, -math.inf],), ([math.inf, 0.0],), "IEEE", "the limits"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
)

ELSEWHERE = Elsewhere("torch.exp(x)", "jax.numpy.exp")

op = pointwise("exp", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
