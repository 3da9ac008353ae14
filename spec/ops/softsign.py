"""Map each entry to between -1 and 1, by a quotient.

    z[i] = x[i] / (1 + |x[i]|)

Reference: Glorot and Bengio, AISTATS 2010; PyTorch's softsign. An infinite entry gives NaN, as the
quotient of infinities is.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1.0, -3.0]))
Tensor([0.0, 0.5, -0.75])
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import absolute, divide, square
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("softsign", x)


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Divide each entry by one more than its magnitude."""
    return x.map(_softsign)


def _softsign(a: Any) -> Any:
    return divide(a, 1 + absolute(a))


def partials(x: Any) -> tuple[Any]:
    """The rate is (1 / (1 + |x|))^2, whose square is taken last: that of 1 + |x| may overflow."""
    return (square(divide(1, 1 + absolute(x))),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "odd, so the sign of zero is kept"),
    Edge(([math.inf, -math.inf],), ([math.nan, math.nan],), "IEEE", "infinity by infinity"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([0.0],), (([3.0],),), "IEEE", "the rate at 0 is 1", cotangent=[3.0]),
)

ELSEWHERE = Elsewhere("torch.nn.functional.softsign(x)", "jax.nn.soft_sign")

op = pointwise("softsign", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
