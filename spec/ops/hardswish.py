"""Gate each entry by the line of hardsigmoid.

    z[i] = x[i] hardsigmoid(x[i])

The line is a product with a sixth, also where it has ended: nobody's sixth has to be exact there.
At the kinks the rate is that of the piece without a slope of its own (CHOICE), as in PyTorch: 0 at
-3 and 1 at 3. NaN has the rate 1. That of minus infinity, a product with 0, is NaN.

Reference: Howard et al., ICCV 2019, section 5.2; PyTorch's hardswish.

>>> from spec.tensor import tensor
>>> op(tensor([-4.0, 0.0, 1.0, 5.0]))
Tensor([-0.0, 0.0, 0.6666666666666666, 5.0])
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
    return same_shape("hardswish", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Gate each entry by the line of hardsigmoid."""
    return x.map(lambda a: a * (_cut(a) * Fraction(1, 6)))


def _cut(a: Any) -> Any:
    """Return a + 3, but 0 from -3 down, 6 from 3 up, and NaN for NaN."""
    below = less(a, 3)
    return select(less(-3, a), select(below, a + 3, 6), select(below, 0, a))


def partials(x: Any) -> tuple[Any]:
    """The rate is (2 x + 3) / 6 between the kinks, 0 below them and 1 above."""
    below = less(x, 3)
    return (select(less(-3, x), select(below, divide(2 * x + 3, 6), 1), select(below, 0, 1)),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "a zero keeps its sign"),
    Edge(([-3.0, 3.0],), ([-0.0, 3.0],), "IEEE", "the kinks"),
    Edge(([math.inf, -math.inf],), ([math.inf, math.nan],), "IEEE", "0 times infinity is NaN"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(
        ([-3.0, 3.0, -4.0, 4.0, math.nan],),
        (([0.0, 6.0, 0.0, 6.0, 6.0],),),
        "CHOICE",
        "the kinks go with the pieces outside, and NaN with the upper one",
        cotangent=[6.0, 6.0, math.inf, 6.0, 6.0],
    ),
    Edge(([0.0],), (([3.0],),), "IEEE", "the rate at 0 is 1/2", cotangent=[6.0]),
)

ELSEWHERE = Elsewhere("torch.nn.functional.hardswish(x)", "jax.nn.hard_silu")

op = pointwise(
    "hardswish", type_rule, value, partials, choosing=True, edges=EDGES, elsewhere=ELSEWHERE
)
