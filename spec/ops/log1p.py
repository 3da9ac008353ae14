"""Take the natural logarithm of 1 plus each entry.

    z[i] = ln(1 + x[i])

Near 0 it keeps its relative accuracy, of which the addition would leave nothing. A zero cotangent
is absorbing, as that of log is.

Reference: IEEE 754-2019, 9.2 (logp1).

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1e-20, -1.0, -2.0]))
Tensor([0.0, 1e-20, -inf, nan])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import divide, log1p
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("log1p", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take the natural logarithm of 1 plus each entry."""
    return x.map(log1p)


def partials(x: Any) -> tuple[Any]:
    """The rate is 1 / (1 + x), without bound at -1."""
    return (divide(1, 1 + x),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "a zero keeps its sign"),
    Edge(([-1.0],), ([-math.inf],), "IEEE", "the pole"),
    Edge(([-2.0, math.nan],), ([math.nan, math.nan],), "IEEE", "outside the domain"),
    Edge(([math.inf],), ([math.inf],), "IEEE", "the limit"),
    Edge(
        ([-1.0, 1.0],),
        (([0.0, 1.0],),),
        "CHOICE",
        "a zero cotangent is absorbing, also at the pole",
        cotangent=[0.0, 2.0],
    ),
)

ELSEWHERE = Elsewhere("torch.log1p(x)", "jax.numpy.log1p")

op = pointwise(
    "log1p", type_rule, value, partials, absorbing=True, edges=EDGES, elsewhere=ELSEWHERE
)
