"""Take the cosine of each entry, an angle in radians.

    z[i] = cos(x[i])

Angles of any size are reduced by as many digits of pi as they need.

Reference: IEEE 754-2019, 9.2 (cos); Payne and Hanek, SIGNUM 1983, for large angles.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1e22]))
Tensor([1.0, 0.523214785395139])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import cos, sin
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("cos", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take the cosine of each entry."""
    return x.map(cos)


def partials(x: Any) -> tuple[Any]:
    """The rate is minus the sine."""
    return (-sin(x),)


EDGES = (
    Edge(([0.0, -0.0],), ([1.0, 1.0],), "IEEE", "even"),
    Edge(([math.inf, -math.inf],), ([math.nan, math.nan],), "IEEE", "no angle is infinite"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([0.0],), (([-0.0],),), "IEEE", "the rate at 0", cotangent=[3.0]),
)

ELSEWHERE = Elsewhere("torch.cos(x)", "jax.numpy.cos")

op = pointwise("cos", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
