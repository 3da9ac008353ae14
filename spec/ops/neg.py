"""Change the sign of each entry.

    z[i] = -x[i]

Reference: IEEE 754-2019, 5.5.1 (negate).

>>> from spec.tensor import tensor
>>> op(tensor([2.0, -3.0]))
Tensor([-2.0, 3.0])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("neg", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Change the sign of each entry."""
    return x.map(_negated)


def _negated(a: Any) -> Any:
    return -a


def partials(x: Any) -> tuple[Any]:
    """The rate is -1 everywhere."""
    return (-1,)


EDGES = (
    Edge(([0.0, -0.0],), ([-0.0, 0.0],), "IEEE", "the sign of zero changes, too"),
    Edge(([math.inf, math.nan],), ([-math.inf, math.nan],), "IEEE", "infinity, and what is none"),
    Edge(
        ([1.0],), (([-math.inf],),), "IEEE", "the cotangent changes its sign", cotangent=[math.inf]
    ),
)

ELSEWHERE = Elsewhere("torch.neg(x)", "jax.numpy.negative")

op = pointwise("neg", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
