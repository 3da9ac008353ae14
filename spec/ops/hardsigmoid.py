"""Map each entry to between 0 and 1, by a line with two kinks.

    z[i] = 0 if x[i] <= -3, 1 if x[i] >= 3, else (x[i] + 3) / 6

At the kinks the rate is 0 (CHOICE), as in PyTorch. NaN survives, and its rate is 0.

Reference: Courbariaux, Bengio and David, NeurIPS 2015; PyTorch's hardsigmoid.

>>> from spec.tensor import tensor
>>> op(tensor([-4.0, 0.0, 1.5, 5.0]))
Tensor([0.0, 0.5, 0.75, 1.0])
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import divide, less, select
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("hardsigmoid", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Cut a line through one half at 0 and 1."""
    return x.map(hardsigmoid)


def hardsigmoid(a: Any) -> Any:
    """Return (a + 3) / 6, but 0 from -3 down, 1 from 3 up, and NaN for NaN."""
    below = less(a, 3)
    return select(less(-3, a), select(below, divide(a + 3, 6), 1), select(below, 0, a))


def partials(x: Any) -> tuple[Any]:
    """The rate is 1/6 between the kinks, else 0."""
    return (select(less(-3, x), select(less(x, 3), Fraction(1, 6), 0), 0),)


EDGES = (
    Edge(([math.inf, -math.inf],), ([1.0, 0.0],), "IEEE", "the limits"),
    Edge(([-3.0, 3.0],), ([0.0, 1.0],), "IEEE", "the kinks"),
    Edge(([math.nan],), ([math.nan],), "CHOICE", "NaN survives"),
    Edge(
        ([-3.0, 3.0, -4.0, 4.0, math.nan],),
        (([0.0, 0.0, 0.0, 0.0, 0.0],),),
        "CHOICE",
        "flat from the kinks on, and for NaN",
        cotangent=[6.0, 6.0, math.inf, math.nan, 6.0],
    ),
    Edge(([0.0],), (([1.0],),), "IEEE", "the rate of the line", cotangent=[6.0]),
)

ELSEWHERE = Elsewhere("torch.nn.functional.hardsigmoid(x)", "jax.nn.hard_sigmoid")

op = pointwise(
    "hardsigmoid", type_rule, value, partials, choosing=True, edges=EDGES, elsewhere=ELSEWHERE
)
