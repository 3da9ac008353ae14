"""Divide two tensors entry by entry.

    z[i] = x[i] / y[i]

C1  all shapes are equal: a primitive never broadcasts.

A zero cotangent is absorbing: a masked quotient leaks no NaN from the pole.

Reference: IEEE 754-2019, 5.4.1 (division) and 7.3 (division by zero).

>>> from spec.tensor import tensor
>>> op(tensor([1.0, 1.0]), tensor([4.0, 0.0]))
Tensor([0.25, inf])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import UNEQUAL, pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import divide
from spec.tensor import Tensor, zip_map

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type, y: Type) -> Type:
    """Accept two tensors of one shape (C1)."""
    return same_shape("div", x, y)


def value(x: Tensor[A, *Dims], y: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Divide two tensors entry by entry."""
    return zip_map(divide, x, y)


def partials(x: Any, y: Any) -> tuple[Any, Any]:
    """By x: 1 / y. By y: -x / y^2, the quotient over the divisor once more."""
    return divide(1, y), -divide(divide(x, y), y)


EDGES = (
    Edge(([1.0, -1.0], [0.0, 0.0]), ([math.inf, -math.inf],), "IEEE", "a pole"),
    Edge(([0.0], [0.0]), ([math.nan],), "IEEE", "0/0 has no value"),
    Edge(([1.0], [math.inf]), ([0.0],), "IEEE", "a finite number over infinity"),
    Edge(
        ([1.0], [0.0]),
        (([0.0], [0.0]),),
        "CHOICE",
        "a zero cotangent is absorbing, also at the pole",
        cotangent=[0.0],
    ),
)

REFUSED = UNEQUAL

ELSEWHERE = Elsewhere("torch.div(x, y)", "jax.numpy.divide")

op = pointwise(
    "div",
    type_rule,
    value,
    partials,
    absorbing=True,
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
