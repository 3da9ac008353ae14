"""Gate each entry by the normal distribution function, or by an approximation of it.

    z[i] = x[i] (1 + erf(x[i] sqrt(1/2))) / 2

C1  approximate is "none" or "tanh".

With "tanh" the error function is tanh(sqrt(2/pi) (x + 0.044715 x^3)). The constants are the
doubles that are nearest, as PyTorch has them. Far below 0 the sum 1 + erf cancels: what is left
there is promised absolutely, in units of x. The product of minus infinity and 0 is NaN.

Reference: Hendrycks and Gimpel, 2016; PyTorch's gelu.

>>> from spec.tensor import tensor
>>> op(tensor([0.0, 1.0, -100.0])), op(tensor([1.0]), approximate="tanh")
(Tensor([0.0, 0.841344746068543, -0.0]), Tensor([0.8411919906082768]))
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.kinds import same_shape
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.erf import op as erf
from spec.ops.mul import op as mul
from spec.ops.scale import op as scale
from spec.ops.square import op as square
from spec.ops.tanh import op as tanh
from spec.refusals import Miss

WAYS = ("none", "tanh")


def type_rule(x: Type, *, approximate: str = "none") -> Type:
    """Accept any shape, and one of two ways (C1)."""
    if approximate not in WAYS:
        raise refuse("gelu C1", f"approximate is one of {WAYS}", repr(approximate))
    return same_shape("gelu", x)


def program(ops: Any, x: Any, *, approximate: str = "none") -> Any:
    """Multiply half of each entry by 1 plus an odd gate."""
    if approximate == "tanh":
        cube = ops.scale(ops.mul(ops.square(x), x), c=0.044715)
        gate = ops.tanh(ops.scale(ops.add(x, cube), c=math.sqrt(2 / math.pi)))
    else:
        gate = ops.erf(ops.scale(x, c=math.sqrt(0.5)))
    one = ops.constant(1, x.shape, like=x)
    return ops.mul(ops.scale(x, c=0.5), ops.add(one, gate))


EDGES = (
    Edge(([0.0, -0.0],), ([0.0, -0.0],), "IEEE", "a zero keeps its sign"),
    Edge(([math.inf, -math.inf],), ([math.inf, math.nan],), "IEEE", "0 times infinity is NaN"),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([0.0],), (([1.0],),), "IEEE", "the rate at 0 is 1/2", cotangent=[2.0]),
)

REFUSED = tuple(Miss("C1", ([1.0],), {"approximate": other}) for other in ("erf", None, True))

TRIED = {"approximate": WAYS}

ELSEWHERE = Elsewhere("torch.nn.functional.gelu(x, approximate=approximate)", "jax.nn.gelu")

op = composite(
    "gelu",
    type_rule,
    program,
    (add, erf, mul, scale, square, tanh),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
