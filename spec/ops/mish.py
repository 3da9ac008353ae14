"""Gate each entry by the hyperbolic tangent of its softplus.

    z[i] = x[i] tanh(ln(1 + e^x[i]))

That of minus infinity, a product with 0, is NaN, as in PyTorch.

Reference: Misra, BMVC 2020; PyTorch's mish.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1000.0, -1000.0]))
Tensor([0.0, 1000.0, -0.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Type
from spec.ops.sigmoid import logistic
from spec.ops.softplus import softened
from spec.scalar import square, tanh
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("mish", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Gate each entry by the hyperbolic tangent of its softplus."""
    return x.map(lambda a: a * tanh(softened(a)))


def partials(x: Any) -> tuple[Any]:
    """The rate is t + x (1 - t^2) sigmoid(x) for t = tanh(softplus(x))."""
    t = tanh(softened(x))
    return (t + x * ((1 - square(t)) * logistic(x)),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "a zero keeps its sign"),
    Edge(([math.inf, -math.inf],), ([math.inf, math.nan],), "IEEE", "0 times infinity is NaN"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
)

op = pointwise("mish", type_rule, value, partials, edges=EDGES)
