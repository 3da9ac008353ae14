"""Keep each positive entry and bend the others down to a floor.

    z[i] = x[i] if x[i] > 0 else alpha * (e^x[i] - 1)

C1  alpha is finite.

alpha is one exact constant. At 0 the rate is alpha (CHOICE), as in PyTorch.

Reference: Clevert, Unterthiner and Hochreiter, ICLR 2016; PyTorch's elu.

>>> from spec.tensor import tensor
>>> op(tensor([-1000.0, 0.0, 3.0]), alpha=0.5)
Tensor([-0.5, 0.0, 3.0])
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.refusals import Miss, need_finite
from spec.scalar import exp, expm1, less, select
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type, *, alpha: float = 1.0) -> Type:
    """Accept any shape, and an alpha that is finite (C1)."""
    need_finite("elu C1", alpha=alpha)
    return same_shape("elu", x)


def value(x: Tensor[A, *Dims], *, alpha: float = 1.0) -> Tensor[A, *Dims]:
    """Keep each positive entry and bend the others down to a floor."""

    def entry(a: Any) -> Any:
        return select(less(0, a), a, Fraction(alpha) * expm1(a))

    return x.map(entry)


def partials(x: Any, *, alpha: float = 1.0) -> tuple[Any]:
    """The rate is 1 beyond 0, and alpha e^x up to it."""
    return (select(less(0, x), 1, Fraction(alpha) * exp(x)),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "a zero keeps its sign"),
    Edge(([math.inf, -math.inf],), ([math.inf, -1.0],), "IEEE", "the limits"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([-math.inf],), (([0.0],),), "IEEE", "flat far out", cotangent=[3.0]),
    Edge(
        ([0.0, -0.0],),
        (([0.5, 0.5],),),
        "CHOICE",
        "the rate at 0 is alpha",
        cotangent=[1.0, 1.0],
        attributes={"alpha": 0.5},
    ),
)

REFUSED = tuple(Miss("C1", ([1.0],), {"alpha": alpha}) for alpha in (math.inf, math.nan))

TRIED = {"alpha": (1.0, 0.25, 0.0, -0.5, 2.0)}

ELSEWHERE = Elsewhere("torch.nn.functional.elu(x, alpha=alpha)", "jax.nn.elu")

op = pointwise(
    "elu",
    type_rule,
    value,
    partials,
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
