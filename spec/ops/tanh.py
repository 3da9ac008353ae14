"""Take the hyperbolic tangent of each entry.

    z[i] = (e^x[i] - e^-x[i]) / (e^x[i] + e^-x[i])

The rate, 1 - z^2, is an absolute promise: in floats it is 0 from |x| of about 19 on, where it is 4
e^(-2 |x|), less than a unit roundoff.

Reference: IEEE 754-2019, 9.2 (tanh).

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 100.0]))
Tensor([0.0, 1.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import square, tanh
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("tanh", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take the hyperbolic tangent of each entry."""
    return x.map(tanh)


def partials(x: Any) -> tuple[Any]:
    """The rate is 1 - tanh(x)^2."""
    return (1 - square(tanh(x)),)


EDGES = (
    Edge(([math.inf, -math.inf],), ([1.0, -1.0],), "IEEE", "the limits"),
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "odd, so the sign of zero is kept"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([math.inf],), (([0.0],),), "IEEE", "flat at infinity", cotangent=[3.0]),
)

ELSEWHERE = Elsewhere("torch.tanh(x)", "jax.numpy.tanh")

op = pointwise("tanh", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
