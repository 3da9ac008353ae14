"""Gate each entry by the hyperbolic tangent of its softplus.

    z[i] = x[i] tanh(ln(1 + e^x[i]))

That of minus infinity, a product with 0, is NaN, as in PyTorch. In floats the second derivative, an
absolute promise, is 0 from about 20.5 on, where the rate of tanh is.

Reference: Misra, BMVC 2020; PyTorch's mish.

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
from spec.ops.softplus import op as softplus
from spec.ops.tanh import op as tanh


def type_rule(x: Type) -> Type:
    """Accept any shape."""
    return same_shape("mish", x)


def program(ops: Any, x: Any) -> Any:
    """Multiply each entry by the hyperbolic tangent of its softplus."""
    return ops.mul(x, ops.tanh(ops.softplus(x)))


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "a zero keeps its sign"),
    Edge(([math.inf, -math.inf],), ([math.inf, math.nan],), "IEEE", "0 times infinity is NaN"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
)

ELSEWHERE = Elsewhere("torch.nn.functional.mish(x)", "jax.nn.mish")

op = composite("mish", type_rule, program, (mul, tanh, softplus), edges=EDGES, elsewhere=ELSEWHERE)
