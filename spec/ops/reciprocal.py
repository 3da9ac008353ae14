"""Divide 1 by each entry.

    z[i] = 1 / x[i]

Reference: IEEE 754-2019, 5.4.1 (division).

>>> from spec.tensor import tensor
>>> op(tensor([2.0, -4.0]))
Tensor([0.5, -0.25])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import divide, square
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("reciprocal", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Divide 1 by each entry."""
    return x.map(_inverse)


def _inverse(a: Any) -> Any:
    return divide(1, a)


def partials(x: Any) -> tuple[Any]:
    """The rate is -(1 / x)^2, whose square is taken last: x^2 leaves the range sooner."""
    return (-square(divide(1, x)),)


EDGES = (
    Edge(([0.0, -0.0],), ([math.inf, -math.inf],), "IEEE", "the pole, on the side of the zero"),
    Edge(([math.inf, -math.inf],), ([0.0, -0.0],), "IEEE", "the limits"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(
        ([0.0, 2.0],),
        (([0.0, -1.0],),),
        "CHOICE",
        "a zero cotangent is absorbing, also at the pole",
        cotangent=[0.0, 4.0],
    ),
)

ELSEWHERE = Elsewhere("torch.reciprocal(x)", "jax.numpy.reciprocal")

op = pointwise(
    "reciprocal", type_rule, value, partials, absorbing=True, edges=EDGES, elsewhere=ELSEWHERE
)
