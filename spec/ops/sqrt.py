"""Take the square root of each entry.

    z[i] = sqrt(x[i])

A zero cotangent is absorbing: a dead root leaks no NaN from the origin.

Reference: IEEE 754-2019, 5.4.1 (squareRoot).

>>> from spec.tensor import tensor
>>> op(tensor([4.0, 0.0, -1.0]))
Tensor([2.0, 0.0, nan])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import divide, sqrt
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("sqrt", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take the square root of each entry."""
    return x.map(sqrt)


def partials(x: Any) -> tuple[Any]:
    """The root changes at rate 1 / (2 sqrt(x)), without bound at 0."""
    return (divide(1, 2 * sqrt(x)),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "the root keeps the sign of zero"),
    Edge(([-1.0, math.nan],), ([math.nan, math.nan],), "IEEE", "outside the domain"),
    Edge(([math.inf],), ([math.inf],), "IEEE", "the limit"),
    Edge(
        ([0.0, 4.0],),
        (([0.0, 0.5],),),
        "CHOICE",
        "a zero cotangent is absorbing, also at the origin",
        cotangent=[0.0, 2.0],
    ),
)

ELSEWHERE = Elsewhere("torch.sqrt(x)", "jax.numpy.sqrt")

op = pointwise("sqrt", type_rule, value, partials, absorbing=True, edges=EDGES, elsewhere=ELSEWHERE)
