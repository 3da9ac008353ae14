"""Scale each positive entry, and bend the others down to a floor.

    z[i] = scale * (x[i] if x[i] > 0 else alpha * (e^x[i] - 1))

Both constants are those at which a layer keeps mean 0 and variance 1, as PyTorch writes them in
double precision. At 0 the rate is that of the lower piece (CHOICE), as in PyTorch.

Reference: Klambauer, Unterthiner, Mayr and Hochreiter, NIPS 2017; PyTorch's selu.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1.0, -1000.0]))
Tensor([0.0, 1.0507009873554805, -1.7580993408473766])
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type
from spec.scalar import exp, expm1, less, select
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("selu", x)


SCALE = Fraction(1.0507009873554804934193349852946)
FLOOR = Fraction(1.6732632423543772848170429916717 * 1.0507009873554804934193349852946)
"""The product of scale and alpha, the depth of the floor."""


def value(x: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Scale each positive entry, and bend the others down to a floor."""
    return x.map(_selu)


def _selu(a: Any) -> Any:
    return select(less(0, a), SCALE * a, FLOOR * expm1(a))


def partials(x: Any) -> tuple[Any]:
    """The rate is scale beyond 0, and scale alpha e^x up to it."""
    return (select(less(0, x), SCALE, FLOOR * exp(x)),)


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "a zero keeps its sign"),
    Edge(([math.inf],), ([math.inf],), "IEEE", "the limit"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([-math.inf],), (([0.0],),), "IEEE", "flat far out", cotangent=[3.0]),
)

ELSEWHERE = Elsewhere("torch.nn.functional.selu(x)", "jax.nn.selu")

op = pointwise("selu", type_rule, value, partials, edges=EDGES, elsewhere=ELSEWHERE)
