"""Keep each positive entry and replace the others by zero.

    z[i] = max(x[i], 0)

Reference: Nair and Hinton, ICML 2010; NaN survives, as in PyTorch.

>>> from spec.tensor import tensor
>>> op(tensor([-2.0, 0.0, 3.0]))
Tensor([0.0, 0.0, 3.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import equal, is_nan, less, select, zero_like
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("relu", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Keep each positive entry and replace the others by zero."""
    return x.map(_relu)


def _relu(a: Any) -> Any:
    return select(less(0, a), a, select(is_nan(a), a, zero_like(a)))


def partials(x: Any) -> tuple[Any]:
    """The rate is 0 up to and including the kink (CHOICE), 1 beyond it and for NaN."""
    return (select(less(x, 0), 0, select(equal(x, 0), 0, 1)),)


EDGES = (
    Edge(([math.nan],), ([math.nan],), "CHOICE", "NaN survives"),
    Edge(([-0.0],), ([0.0], [-0.0]), "CHOICE", "the zero may keep its sign"),
    Edge(([math.inf, -math.inf],), ([math.inf, 0.0],), "IEEE", "the limits"),
    Edge(
        ([0.0, -0.0],),
        (([0.0, 0.0],),),
        "CHOICE",
        "the rate at the kink is 0",
        cotangent=[1.0, 1.0],
    ),
    Edge(([math.nan],), (([1.0],),), "CHOICE", "NaN lets the cotangent pass", cotangent=[1.0]),
    Edge(
        ([-1.0, 0.0, -math.inf],),
        (([0.0, 0.0, 0.0],),),
        "CHOICE",
        "what was not chosen contributes exactly 0, also to an infinite cotangent",
        cotangent=[math.inf, -math.inf, math.nan],
    ),
)

ELSEWHERE = Elsewhere("torch.nn.functional.relu(x)", "jax.nn.relu")

op = pointwise("relu", type_rule, value, partials, choosing=True, edges=EDGES, elsewhere=ELSEWHERE)
