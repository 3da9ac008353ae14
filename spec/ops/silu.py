"""Gate each entry by its own logistic curve.

    z[i] = x[i] / (1 + e^-x[i])

It is the product of x and sigmoid(x); that of minus infinity and 0 is NaN, as in PyTorch.

Reference: Elfwing, Uchibe and Doya, Neural Networks 107, 2018; PyTorch's silu.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1000.0, -1000.0]))
Tensor([0.0, 1000.0, -0.0])
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.kinds import same_shape
from spec.op import Edge, Elsewhere, Type
from spec.ops.mul import op as mul
from spec.ops.sigmoid import op as sigmoid


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("silu", x)


def program(ops: Any, x: Any) -> Any:
    """Multiply each entry by its logistic curve."""
    return ops.mul(x, ops.sigmoid(x))


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "a zero keeps its sign"),
    Edge(([math.inf, -math.inf],), ([math.inf, math.nan],), "IEEE", "0 times infinity is NaN"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([0.0],), (([1.0],),), "IEEE", "the rate at 0 is 1/2", cotangent=[2.0]),
)

ELSEWHERE = Elsewhere("torch.nn.functional.silu(x)", "jax.nn.silu")

op = composite("silu", type_rule, program, (mul, sigmoid), edges=EDGES, elsewhere=ELSEWHERE)
