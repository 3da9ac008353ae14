"""Take a logarithm that every entry has.

    z[i] = ln(ln(1 + e^x[i]) + eps)

C1  eps is finite and > 0.

Far above 0 it is ln x, and far below it is ln eps; in between it is smooth.
It is the logarithm of softplus(x) + eps, and so is its gradient.

>>> from spec.tensor import tensor
>>> op(tensor([-1000.0, 1000.0]), eps=1.0)
Tensor([0.0, 6.90875477931522])
"""

from __future__ import annotations

import math
from typing import Any

from spec.composite import composite
from spec.kinds import same_shape
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.add import op as add
from spec.ops.log import op as log
from spec.ops.softplus import op as softplus
from spec.refusals import Miss


def type_rule(x: Type, *, eps: float = 1e-6) -> Type:
    """Accept any shape, and an eps that is finite and positive (C1)."""
    if not 0 < eps < math.inf:
        raise refuse("safe_log C1", "eps is finite and > 0", f"eps={eps!r}")
    return same_shape("safe_log", x)


def program(ops: Any, x: Any, *, eps: float = 1e-6) -> Any:
    """Take the logarithm of softplus, lifted by eps."""
    return ops.log(ops.add(ops.softplus(x), ops.constant(eps, x.shape, like=x)))


EDGES = (
    Edge(
        ([math.inf, -math.inf],),
        ([math.inf, 0.0],),
        "IEEE",
        "the limits",
        attributes={"eps": 1.0},
    ),
    Edge(([math.nan],), ([math.nan],), "IEEE", "NaN propagates"),
    Edge(([-math.inf],), (([0.0],),), "IEEE", "flat far below", cotangent=[3.0]),
)

REFUSED = tuple(Miss("C1", ([1.0],), {"eps": eps}) for eps in (0.0, -1.0, math.inf, math.nan))

TRIED = {"eps": (1e-6, 1.0, 1e-3)}

ELSEWHERE = Elsewhere(None, None, formula="mpmath.log(mpmath.log1p(mpmath.exp(x)) + eps)")

op = composite(
    "safe_log",
    type_rule,
    program,
    (softplus, add, log),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
