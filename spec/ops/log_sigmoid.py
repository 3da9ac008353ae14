"""Take the logarithm of the logistic curve.

    z[i] = ln(1 / (1 + e^-x[i]))

It is computed as min(x, 0) - log1p(e^-|x|), which overflows nowhere and keeps its relative accuracy
far above 0. Its rate is sigmoid(-x).

Reference: PyTorch's logsigmoid.

>>> from spec.tensor import tensor
>>> op(tensor([-1000.0, 1000.0]))
Tensor([-1000.0, 0.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.ops.sigmoid import logistic, shrunk
from spec.scalar import less, log1p, select
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("log_sigmoid", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take the logarithm of the logistic curve."""
    return x.map(lambda a: select(less(a, 0), a, 0) - log1p(shrunk(a)))


def partials(x: Any) -> tuple[Any]:
    """The rate is the logistic curve of -x."""
    return (logistic(-x),)


EDGES = (
    Edge(([math.inf, -math.inf],), ([0.0, -math.inf],), "IEEE", "the limits"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([math.inf, -math.inf],), (([0.0, 3.0],),), "IEEE", "straight far out", [3.0, 3.0]),
    Edge(([0.0, -0.0],), (([1.0, 1.0],),), "IEEE", "the rate at 0 is 1/2", cotangent=[2.0, 2.0]),
)

ELSEWHERE = Elsewhere("torch.nn.functional.logsigmoid(x)", "jax.nn.log_sigmoid")

op = pointwise("log_sigmoid", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
