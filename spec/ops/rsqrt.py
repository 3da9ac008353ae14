"""Divide 1 by the square root of each entry.

    z[i] = 1 / sqrt(x[i])

Reference: IEEE 754-2019, 9.2 (rSqrt).

>>> from spec.tensor import tensor
>>> op(tensor([4.0, 0.25]))
Tensor([0.5, 2.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import divide, sqrt, square
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("rsqrt", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Divide 1 by the square root of each entry."""
    return x.map(_rsqrt)


def _rsqrt(a: Any) -> Any:
    return divide(1, sqrt(a))


def partials(x: Any) -> tuple[Any]:
    """The rate is -(1 / s) / (2 s^2) for s = sqrt(x), without bound at 0."""
    root = sqrt(x)
    return (-divide(divide(1, root), 2 * square(root)),)


EDGES = (
    Edge(([0.0, -0.0],), ([math.inf, -math.inf],), "IEEE", "the pole, on the side of the zero"),
    Edge(([-1.0, math.nan],), ([math.nan, math.nan],), "IEEE", "outside the domain"),
    Edge(([math.inf],), ([0.0],), "IEEE", "the limit"),
    Edge(
        ([0.0, 4.0],),
        (([0.0, -1.0],),),
        "CHOICE",
        "a zero cotangent is absorbing, also at the pole",
        cotangent=[0.0, 16.0],
    ),
)

ELSEWHERE = Elsewhere("torch.rsqrt(x)", "jax.lax.rsqrt")

op = pointwise(
    "rsqrt", type_rule, value, partials, absorbing=True, edges=EDGES, elsewhere=ELSEWHERE
)
