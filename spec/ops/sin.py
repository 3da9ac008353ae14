"""Take the sine of each entry, an angle in radians.

    z[i] = sin(x[i])

Angles of any size are reduced by as many digits of pi as they need.

Reference: IEEE 754-2019, 9.2 (sin); Payne and Hanek, SIGNUM 1983, for large angles.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1e22]))
Tensor([0.0, -0.8522008497671888])
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
    return same_shape("sin", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take the sine of each entry."""
    return x.map(sin)


def partials(x: Any) -> tuple[Any]:
    """The rate is the cosine."""
    return (cos(x),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "odd, so the sign of zero is kept"),
    Edge(([math.inf, -math.inf],), ([math.nan, math.nan],), "IEEE", "no angle is infinite"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([0.0],), (([3.0],),), "IEEE", "the rate at 0", cotangent=[3.0]),
)

ELSEWHERE = Elsewhere("torch.sin(x)", "jax.numpy.sin")

op = pointwise("sin", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
