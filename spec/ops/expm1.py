"""Raise e to the power of each entry, and subtract 1.

    z[i] = e^x[i] - 1

Near 0 it keeps its relative accuracy, of which the subtraction would leave nothing.

Reference: IEEE 754-2019, 9.2 (expm1).

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1e-20, -1000.0]))
Tensor([0.0, 1e-20, -1.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import exp, expm1
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("expm1", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Raise e to the power of each entry, and subtract 1."""
    return x.map(expm1)


def partials(x: Any) -> tuple[Any]:
    """The rate is e^x."""
    return (exp(x),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "a zero keeps its sign"),
    Edge(([math.inf, -math.inf],), ([math.inf, -1.0],), "IEEE", "the limits"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([-math.inf],), (([0.0],),), "IEEE", "flat far out", cotangent=[3.0]),
)

ELSEWHERE = Elsewhere("torch.expm1(x)", "jax.numpy.expm1")

op = pointwise("expm1", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
