"""Take the error function of each entry.

    z[i] = 2 / sqrt(pi) * (integral of e^-t^2 for t from 0 to x[i])

Reference: Abramowitz and Stegun, 7.1.1; PyTorch's erf.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1.0, -10.0]))
Tensor([0.0, 0.8427007929497149, -1.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import divide, erf, exp, pi_like, sqrt, square
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("erf", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take the error function of each entry."""
    return x.map(erf)


def partials(x: Any) -> tuple[Any]:
    """The rate is 2 / sqrt(pi) e^-x^2."""
    return (divide(2, sqrt(pi_like(x))) * exp(-square(x)),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "odd, so the sign of zero is kept"),
    Edge(([math.inf, -math.inf],), ([1.0, -1.0],), "IEEE", "the limits"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([math.inf],), (([0.0],),), "IEEE", "flat at infinity", cotangent=[3.0]),
)

ELSEWHERE = Elsewhere("torch.erf(x)", "jax.scipy.special.erf")

op = pointwise("erf", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
