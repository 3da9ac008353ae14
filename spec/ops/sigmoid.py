"""Map each entry to between 0 and 1, by the logistic curve.

    z[i] = 1 / (1 + e^-x[i])

It is computed from e^-|x|, which overflows nowhere: as 1 / (1 + e^-|x|) for a positive entry and
as e^-|x| / (1 + e^-|x|) for a negative one. So is its rate z (1 - z) = e^-|x| / (1 + e^-|x|)^2,
which keeps its relative accuracy where z is nearly 1.

Reference: PyTorch's sigmoid.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1000.0, -1000.0]))
Tensor([0.5, 1.0, 0.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import divide, exp, less, select, square
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("sigmoid", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Map each entry to between 0 and 1."""
    return x.map(logistic)


def logistic(a: Any) -> Any:
    """Return 1 / (1 + e^-a)."""
    e = shrunk(a)
    return divide(select(less(a, 0), e, 1), 1 + e)


def shrunk(a: Any) -> Any:
    """Return e^-|a|, smooth from the right at 0, where |a| has a kink and the curve has none."""
    return exp(select(less(a, 0), a, -a))


def partials(x: Any) -> tuple[Any]:
    """The rate is e / (1 + e)^2 for e = e^-|x|, the same on both sides of 0."""
    e = shrunk(x)
    return (divide(e, square(1 + e)),)


EDGES = (
    Edge(([math.inf, -math.inf],), ([1.0, 0.0],), "IEEE", "the limits"),
    Edge(([0.0, -0.0],), ([0.5, 0.5],), "IEEE", "one half at 0"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([math.inf, -math.inf],), (([0.0, 0.0],),), "IEEE", "flat far out", cotangent=[3.0, 3.0]),
    Edge(([0.0],), (([1.0],),), "IEEE", "the rate at 0 is 1/4", cotangent=[4.0]),
)

ELSEWHERE = Elsewhere("torch.sigmoid(x)", "jax.nn.sigmoid")

op = pointwise("sigmoid", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
