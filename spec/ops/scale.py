"""Multiply each entry by one number that is no tensor.

    z[i] = c * x[i]

C1  c is finite; it has no gradient.

c is one exact constant, which an arithmetic rounds to its format.

Reference: IEEE 754-2019, 5.4.1 (multiplication).

>>> from spec.tensor import tensor
>>> op(tensor([2, -3]), c=0.5)
Tensor([Fraction(1, 1), Fraction(-3, 2)])
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.refusals import Miss, need_finite
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type, *, c: float) -> Type:
    """Accept any shape, and a number that is finite (C1)."""
    need_finite("scale C1", c=c)
    return same_shape("scale", x)


def value(x: Tensor[A, *Dims], *, c: float) -> Tensor[A, *Dims]:
    """Multiply each entry by the number."""

    def entry(a: Any) -> Any:
        return Fraction(c) * a

    return x.map(entry)


def partials(x: Any, *, c: float) -> tuple[Any]:
    """The rate is c everywhere."""
    return (Fraction(c),)


EDGES = (
    Edge(
        ([math.inf, -0.0, math.nan],),
        ([-math.inf, 0.0, math.nan],),
        "IEEE",
        "signs multiply",
        attributes={"c": -2.0},
    ),
    Edge(([math.inf],), ([math.nan],), "IEEE", "zero times infinity", attributes={"c": 0.0}),
    Edge(
        ([1.0],),
        (([-math.inf],),),
        "IEEE",
        "the cotangent is scaled as well",
        cotangent=[math.inf],
        attributes={"c": -2.0},
    ),
)

REFUSED = tuple(Miss("C1", ([1.0],), {"c": c}) for c in (math.inf, math.nan))

TRIED = {"c": (-3.0, 0.1, 0.0, 1.0, 1e-3)}

ELSEWHERE = Elsewhere("torch.mul(x, c)", "jax.numpy.multiply")

op = pointwise(
    "scale",
    type_rule,
    value,
    partials,
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
