"""Replace each entry beyond a bound by the bound.

    z[i] = lo if x[i] < lo, hi if x[i] > hi, else x[i]

C1  lo and hi are numbers, and lo <= hi; lo may be minus infinity, and hi infinity.

A bound belongs to the interval: there the rate is 1 (CHOICE), and beyond it 0.
NaN survives, and its rate is 0, as in PyTorch.

Reference: PyTorch's clamp; jax.numpy.clip.

>>> from spec.tensor import tensor
>>> op(tensor([-2.0, 0.5, 3.0]), lo=-1.0, hi=1.0)
Tensor([-1.0, 0.5, 1.0])
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.scalar import is_nan, less, select
from spec.tensor import Tensor
from spec.worlds import is_number

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type, *, lo: float, hi: float) -> Type:
    """Accept any shape, and bounds that are in order (C1)."""
    numbers = is_number(lo) and is_number(hi)
    if not (numbers and lo <= hi and lo < math.inf and hi > -math.inf):
        rule = "lo and hi are numbers, lo <= hi, lo < inf and hi > -inf"
        raise refuse("clamp C1", rule, f"lo={lo!r}, hi={hi!r}")
    return same_shape("clamp", x)


def value(x: Tensor[A, *Dims], *, lo: float, hi: float) -> Tensor[A, *Dims]:
    """Replace each entry beyond a bound by the bound."""

    def entry(a: Any) -> Any:
        inner = a if hi == math.inf else select(less(_bound(hi), a), _bound(hi), a)
        return inner if lo == -math.inf else select(less(a, _bound(lo)), _bound(lo), inner)

    return x.map(entry)


def partials(x: Any, *, lo: float, hi: float) -> tuple[Any]:
    """The rate is 1 from bound to bound, 0 beyond them and for NaN."""
    rate: Any = select(is_nan(x), 0, 1)
    if hi < math.inf:
        rate = select(less(_bound(hi), x), 0, rate)
    return (rate if lo == -math.inf else select(less(x, _bound(lo)), 0, rate),)


def _bound(bound: float) -> Any:
    return Fraction(bound)


BOUNDS = {"lo": -1.0, "hi": 1.0}

EDGES = (
    Edge(([math.nan],), ([math.nan],), "CHOICE", "NaN survives", attributes=BOUNDS),
    Edge(([math.inf, -math.inf],), ([1.0, -1.0],), "IEEE", "the limits", attributes=BOUNDS),
    Edge(([-1.0, 1.0],), (([3.0, 5.0],),), "CHOICE", "a bound is within", [3.0, 5.0], BOUNDS),
    Edge(
        ([-2.0, 2.0, math.nan],),
        (([0.0, 0.0, 0.0],),),
        "CHOICE",
        "beyond a bound it is flat, and for NaN",
        [math.inf, 1.0, 3.0],
        BOUNDS,
    ),
)

REFUSED = tuple(
    Miss("C1", ([1.0],), {"lo": lo, "hi": hi})
    for lo, hi in ((1.0, 0.0), (math.nan, 1.0), (0.0, math.nan), (math.inf, math.inf))
)

TRIED = {"lo": (-1.0, 0.0, -2.5, -math.inf), "hi": (1.0, 2.5, 0.0, math.inf)}

ELSEWHERE = Elsewhere("torch.clamp(x, min=lo, max=hi)", "jax.numpy.clip")

op = pointwise(
    "clamp",
    type_rule,
    value,
    partials,
    choosing=True,
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
