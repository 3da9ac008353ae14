"""Take the natural logarithm of each entry.

    z[i] = ln x[i]

A zero cotangent is absorbing: a masked logarithm leaks no NaN from the pole.

Reference: IEEE 754-2019, 9.2 (log).

>>> from spec.tensor import tensor
>>> op(tensor([1.0, 0.0, -1.0]))
Tensor([0.0, -inf, nan])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import divide, log
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("log", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take the natural logarithm of each entry."""
    return x.map(log)


def partials(x: Any) -> tuple[Any]:
    """The logarithm changes at rate 1 / x."""
    return (divide(1, x),)


EDGES = (
    Edge(([1.0],), ([0.0],), "IEEE", "ln 1 = +0"),
    Edge(([0.0, -0.0],), ([-math.inf, -math.inf],), "IEEE", "the pole, for either zero"),
    Edge(([-1.0, math.nan],), ([math.nan, math.nan],), "IEEE", "outside the domain"),
    Edge(([math.inf],), ([math.inf],), "IEEE", "the limit"),
    Edge(
        ([0.0, 1.0],),
        (([0.0, 2.0],),),
        "CHOICE",
        "a zero cotangent is absorbing, also at the pole",
        cotangent=[0.0, 2.0],
    ),
)

ELSEWHERE = Elsewhere("torch.log(x)", "jax.numpy.log")

op = pointwise("log", type_rule, value, partials, absorbing=True, edges=EDGES, elsewhere=ELSEWHERE)
