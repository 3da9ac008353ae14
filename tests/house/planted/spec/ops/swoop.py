"""Add the hyperbolic tangent and the exponential of each entry.

    z[i] = tanh(x[i]) + e^x[i]

Reference: none; this page exists in a test.

>>> from spec.tensor import tensor
>>> op(tensor([0.0]))
Tensor([1.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import exp, square, tanh
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("swoop", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Add both functions."""
    return x.map(lambda a: tanh(a) + exp(a))


def partials(x: Any) -> tuple[Any]:
    """The rate is 1 - tanh(x)^2 + e^x."""
    return (1 - square(tanh(x)) + exp(x),)


EDGES = (
    Edge(([math.inf, -math.inf],), ([math.inf, -1.0],), "IEEE", "the limits"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([-math.inf],), (([0.0],),), "IEEE", "flat far below 0", cotangent=[3.0]),
)

ELSEWHERE = Elsewhere(None, None, formula="torch.tanh(x) + torch.exp(x)")

op = pointwise("swoop", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
