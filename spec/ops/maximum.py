"""Take the larger of two tensors, entry by entry.

    z[i] = max(x[i], y[i])

C1  all shapes are equal: a primitive never broadcasts.

NaN propagates from either side, and its cotangent then passes to both.
The zeros are equal, whatever their signs: of a tie the result may be either.
Convention (CHOICE): where x and y tie, each side is taken half.

Reference: IEEE 754-2019, 9.6 (maximum); PyTorch's maximum, for ties and NaN.

>>> from spec.tensor import tensor
>>> op(tensor([1, 5]), tensor([3, 2]))
Tensor([3, 5])
>>> op.vjp((tensor([1.0, 4.0]), tensor([3.0, 4.0])), tensor([1.0, 1.0]))
(Tensor([0.0, 0.5]), Tensor([1.0, 0.5]))
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import UNEQUAL, pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import equal, less, maximum, select
from spec.tensor import Tensor, zip_map

A = TypeVar("A")
Dims = TypeVarTuple("Dims")

HALF = Fraction(1, 2)


def type_rule(x: Type, y: Type) -> Type:
    """Accept two tensors of one shape (C1)."""
    return same_shape("maximum", x, y)


def value(x: Tensor[A, *Dims], y: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take the larger of two tensors, entry by entry."""
    return zip_map(maximum, x, y)


def partials(x: Any, y: Any) -> tuple[Any, Any]:
    """The larger side counts whole, the smaller not at all; halves at a tie, both with NaN."""
    tie = select(equal(x, y), HALF, 1)
    return select(less(x, y), 0, tie), select(less(y, x), 0, tie)


EITHER_ZEROS = ([0.0, 0.0], [0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0])

EDGES = (
    Edge(([math.nan, 1.0], [1.0, math.nan]), ([math.nan] * 2,), "CHOICE", "NaN propagates"),
    Edge(([math.nan], [math.inf]), ([math.nan],), "CHOICE", "NaN propagates past infinity"),
    Edge(([0.0, -0.0], [-0.0, 0.0]), EITHER_ZEROS, "CHOICE", "the zeros tie; either may be taken"),
    Edge(([-math.inf, -math.inf], [-math.inf, 2.0]), ([-math.inf, 2.0],), "IEEE", "infinities"),
    Edge(([], []), ([],), "IEEE", "an empty axis stays empty"),
    Edge(
        ([3.0, 0.0, -math.inf], [3.0, -0.0, -math.inf]),
        (([0.5, 1.0, 2.0], [0.5, 1.0, 2.0]),),
        "CHOICE",
        "sides that tie take half each, the zeros among them",
        cotangent=[1.0, 2.0, 4.0],
    ),
    Edge(
        ([math.nan, 1.0, math.nan], [1.0, math.nan, math.nan]),
        (([1.0, 2.0, 4.0], [1.0, 2.0, 4.0]),),
        "CHOICE",
        "NaN lets the cotangent pass to both sides",
        cotangent=[1.0, 2.0, 4.0],
    ),
    Edge(
        ([1.0, 3.0], [2.0, 2.0]),
        (([0.0, math.inf], [math.inf, 0.0]),),
        "CHOICE",
        "what was not chosen contributes exactly 0, also to an infinite cotangent",
        cotangent=[math.inf, math.inf],
    ),
)

REFUSED = UNEQUAL

ELSEWHERE = Elsewhere("torch.maximum(x, y)", "jax.numpy.maximum")

op = pointwise(
    "maximum",
    type_rule,
    value,
    partials,
    choosing=True,
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
