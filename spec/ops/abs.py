"""Take the absolute value of each entry.

    z[i] = |x[i]|

Reference: IEEE 754-2019, 5.5.1 (abs); the rate at 0 is PyTorch's.

>>> from spec.tensor import tensor
>>> op(tensor([2.0, 0.0, -3.0]))
Tensor([2.0, 0.0, 3.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import absolute, less, select
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("abs", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take the absolute value of each entry."""
    return x.map(absolute)


def partials(x: Any) -> tuple[Any]:
    """The rate is the sign of x: 0 at the kink, and for NaN (CHOICE)."""
    return (select(less(x, 0), -1, select(less(0, x), 1, 0)),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, 0.0],), "IEEE", "no zero is negative"),
    Edge(([-math.inf, math.nan],), ([math.inf, math.nan],), "IEEE", "infinity, and what is none"),
    Edge(
        ([0.0, -0.0],),
        (([0.0, 0.0],),),
        "CHOICE",
        "the rate at the kink is 0",
        cotangent=[1.0, 1.0],
    ),
    Edge(([math.nan],), (([0.0],),), "CHOICE", "NaN has no side", cotangent=[1.0]),
    Edge(([-math.inf],), (([-2.0],),), "IEEE", "the rate is -1 far out", cotangent=[2.0]),
)

ELSEWHERE = Elsewhere("torch.abs(x)", "jax.numpy.abs")

op = pointwise("abs", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
