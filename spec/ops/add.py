"""Add two tensors entry by entry.

    z[i] = x[i] + y[i]

C1  all shapes are equal: a primitive never broadcasts.

Reference: IEEE 754-2019, 5.4.1 (addition).

>>> from spec.tensor import tensor
>>> op(tensor([1, 2]), tensor([10, 20]))
Tensor([11, 22])
"""

from __future__ import annotations

import math
import operator
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import UNEQUAL, pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.tensor import Tensor, zip_map

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type, y: Type) -> Type:
    """Accept two tensors of one shape (C1)."""
    return same_shape("add", x, y)


def value(x: Tensor[A, *Dims], y: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Add two tensors entry by entry."""
    return zip_map(operator.add, x, y)


def partials(x: Any, y: Any) -> tuple[Any, Any]:
    """The sum changes at rate 1 with each addend."""
    return 1, 1


EDGES = (
    Edge(([math.inf], [-math.inf]), ([math.nan],), "IEEE", "opposite infinities have no sum"),
    Edge(([-0.0], [0.0]), ([0.0],), "IEEE", "signed zeros add to +0 in round-to-nearest"),
    Edge(([], []), ([],), "IEEE", "an empty axis stays empty"),
)

REFUSED = UNEQUAL

ELSEWHERE = Elsewhere("torch.add(x, y)", "jax.numpy.add")

op = pointwise("add", type_rule, value, partials, edges=EDGES, refused=REFUSED, elsewhere=ELSEWHERE)
