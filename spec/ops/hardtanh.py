"""Clamp each entry, with a slope that ends before the bounds.

    z[i] = lo if x[i] <= lo, hi if x[i] >= hi, else x[i]

C1  lo and hi are finite, and lo < hi.

It is clamp but for the kinks: at the bounds the rate is 0 (CHOICE), as in PyTorch, where clamp has
1. NaN survives, and its rate is 0.

Reference: Collobert, 2004, section 3.3; PyTorch's hardtanh.

>>> from spec.tensor import tensor
>>> op(tensor([-2.0, 0.5, 3.0]))
Tensor([-1.0, 0.5, 1.0])
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import pointwise, same_shape
from spec.op import Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.scalar import less, select
from spec.tensor import Tensor

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(x: Type, *, lo: float = -1.0, hi: float = 1.0) -> Type:
    """Accept any shape, and bounds that are finite and in order (C1)."""
    if not -math.inf < lo < hi < math.inf:
        raise refuse("hardtanh C1", "lo and hi are finite, and lo < hi", f"lo={lo!r}, hi={hi!r}")
    return same_shape("hardtanh", x)


def value(x: Tensor[A, *Dims], *, lo: float = -1.0, hi: float = 1.0) -> Tensor[A, *Dims]:
    """Replace each entry beyond a bound by the bound."""
    low, high = Fraction(lo), Fraction(hi)
    return x.map(lambda a: _cut(a, low, high))


def _cut(a: Any, low: Fraction, high: Fraction) -> Any:
    """Return an entry between the bounds, or the bound that it does not lie within, or NaN."""
    below = less(a, high)
    return select(less(low, a), select(below, a, high), select(below, low, a))


def partials(x: Any, *, lo: float = -1.0, hi: float = 1.0) -> tuple[Any]:
    """The rate is 1 between the bounds, and 0 from them on and for NaN."""
    return (select(less(Fraction(lo), x), select(less(x, Fraction(hi)), 1, 0), 0),)


EDGES = (
    Edge(([math.nan],), ([math.nan],), "CHOICE", "NaN survives"),
    Edge(([math.inf, -math.inf],), ([1.0, -1.0],), "IEEE", "the limits"),
    Edge(
        ([-1.0, 1.0, -2.0, 2.0],),
        (([0.0, 0.0, 0.0, 0.0],),),
        "CHOICE",
        "from the bounds on it is flat",
        cotangent=[3.0, 5.0, math.inf, math.nan],
    ),
    Edge(([math.nan],), (([0.0],),), "CHOICE", "the rate of NaN is 0", cotangent=[3.0]),
)

REFUSED = tuple(
    Miss("C1", ([1.0],), {"lo": lo, "hi": hi})
    for lo, hi in ((1.0, 0.0), (1.0, 1.0), (math.nan, 1.0), (-math.inf, 1.0), (0.0, math.inf))
)

TRIED = {"lo": (-1.0, 0.0, -2.5), "hi": (1.0, 2.5, 0.5)}

ELSEWHERE = Elsewhere("torch.nn.functional.hardtanh(x, min_val=lo, max_val=hi)", "jax.nn.hard_tanh")

op = pointwise(
    "hardtanh",
    type_rule,
    value,
    partials,
    choosing=True,
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
