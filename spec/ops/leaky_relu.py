"""Keep each positive entry and scale the others down.

    z[i] = x[i] if x[i] > 0 else slope * x[i]

C1  slope is finite.

The slope is one exact constant. At the kink the rate is the slope (CHOICE), as in PyTorch.

Reference: Maas, Hannun and Ng, ICML 2013; PyTorch's leaky_relu.

>>> from spec.tensor import tensor
>>> op(tensor([-2.0, 0.0, 3.0]), slope=0.5)
Tensor([-1.0, 0.0, 3.0])
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.refusals import Miss, need_finite
from spec.scalar import less, select
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type, *, slope: float = 0.01) -> Type:
    """Accept any shape, and a slope that is finite (C1)."""
    need_finite("leaky_relu C1", slope=slope)
    return same_shape("leaky_relu", x)


def value(x: Tensor[A, *Dims], *, slope: float = 0.01) -> Tensor[A, *Dims]:
    """Keep each positive entry and scale the others down."""

    def entry(a: Any) -> Any:
        return select(less(0, a), a, Fraction(slope) * a)

    return x.map(entry)


def partials(x: Any, *, slope: float = 0.01) -> tuple[Any]:
    """The rate is 1 beyond the kink, the slope up to and including it, and for NaN (CHOICE)."""
    return (select(less(0, x), 1, Fraction(slope)),)


EDGES = (
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(
        ([math.inf, -math.inf],),
        ([math.inf, -math.inf],),
        "IEEE",
        "the limits",
        attributes={"slope": 0.5},
    ),
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "a zero keeps its sign"),
    Edge(
        ([0.0, -0.0, math.nan],),
        (([0.5, 0.5, 0.5],),),
        "CHOICE",
        "the rate is the slope at the kink, and for NaN",
        cotangent=[1.0, 1.0, 1.0],
        attributes={"slope": 0.5},
    ),
)

REFUSED = tuple(Miss("C1", ([1.0],), {"slope": slope}) for slope in (math.inf, math.nan))

TRIED = {"slope": (0.25, 0.01, 0.0, -0.5, 2.0)}

ELSEWHERE = Elsewhere(
    "torch.nn.functional.leaky_relu(x, negative_slope=slope)", "jax.nn.leaky_relu"
)

op = pointwise(
    "leaky_relu",
    type_rule,
    value,
    partials,
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
