"""Put one number around a tensor, so many places before and after along each axis.

    z[i] = x[i - before] where that is a place of x, value elsewhere

C1  before and after have one entry for each axis.
C2  every entry is an integer >= 0; nothing is cut away.
C3  the value is finite.

A program over concat: along each axis, x between two constants. The value is a constant, rounded
once, so the gradient is what the cotangent has in the places of x, and the tangent is padded by 0.

Reference: NumPy's pad with mode "constant"; PyTorch's pad, without its negative widths.

>>> from spec.tensor import tensor
>>> op(tensor([1.0, 2.0]), before=(2,), after=(1,))
Tensor([0.0, 0.0, 1.0, 2.0, 0.0])
>>> op.vjp((tensor([1.0, 2.0]),), tensor([5, 6, 7]), before=(1,), after=(0,), value=9.0)
(Tensor([6, 7]),)
"""

from __future__ import annotations

import math
from operator import add
from typing import Any

from spec.composite import composite
from spec.op import Edge, Elsewhere, Type, refuse
from spec.ops.concat import op as concat
from spec.refusals import Miss, need_finite
from spec.shape import Shape, is_extent


def type_rule(x: Type, *, before: Shape, after: Shape, value: float = 0.0) -> Type:
    """Accept widths for each axis (C1) that are not negative (C2), and a finite value (C3)."""
    rank = len(x.shape)
    if len(before) != rank or len(after) != rank:
        rule = f"before and after have one entry for each of the {rank} axes"
        raise refuse("pad C1", rule, f"{tuple(before)} and {tuple(after)}")
    if not all(is_extent(n) for n in (*before, *after)):
        came = f"{tuple(before)} and {tuple(after)}"
        raise refuse("pad C2", "every entry of before and after is an integer >= 0", came)
    need_finite("pad C3", value=value)
    return Type(tuple(map(add, map(add, before, x.shape), after)))


def program(ops: Any, x: Any, *, before: Shape, after: Shape, value: float = 0.0) -> Any:
    """Join, along one axis after the other, a constant, what there is, and a constant."""
    whole = x
    for axis, widths in enumerate(zip(before, after, strict=True)):
        shapes = ((*whole.shape[:axis], n, *whole.shape[axis + 1 :]) for n in widths)
        first, last = (ops.constant(value, shape, like=x) for shape in shapes)
        whole = ops.concat(first, whole, last, axis=axis)
    return whole


EDGES = (
    Edge(
        ([-0.0, math.nan],),
        ([-0.0, math.nan],),
        "IEEE",
        "no width leaves x as it is",
        attributes={"before": (0,), "after": (0,)},
    ),
    Edge((-0.0,), (-0.0,), "IEEE", "a scalar has no axes", attributes={"before": (), "after": ()}),
    Edge(
        ([[], []],),
        ([[1.5], [1.5]],),
        "IEEE",
        "what is empty is filled",
        attributes={"before": (0, 1), "after": (0, 0), "value": 1.5},
    ),
    Edge(
        ([1.0],),
        (([-0.0],),),
        "IEEE",
        "what was put around has no gradient to hand on",
        cotangent=[math.inf, -0.0, math.nan],
        attributes={"before": (1,), "after": (1,)},
    ),
)

_ROW = ([1.0, 2.0],)

REFUSED = (
    *(Miss("C1", _ROW, {"before": b, "after": a}) for b, a in (((), ()), ((1, 1), (0, 0)))),
    *(Miss("C1", _ROW, {"before": b, "after": a}) for b, a in (((1,), ()), ((), (1,)))),
    Miss("C1", (1.0,), {"before": (1,), "after": (1,)}),
    *(Miss("C2", _ROW, {"before": (n,), "after": (2,)}) for n in (-1, 1.0, True)),
    *(Miss("C2", _ROW, {"before": (2,), "after": (n,)}) for n in (-1, 1.0, True)),
    *(
        Miss("C3", _ROW, {"before": (1,), "after": (1,), "value": wrong})
        for wrong in (math.inf, -math.inf, math.nan)
    ),
)

TRIED = {"value": (0.0, 1.5, -3.0, 0.1)}

ELSEWHERE = Elsewhere(
    "torch.nn.functional.pad(x, [n for pair in zip(after, before) for n in pair][::-1], "
    "value=value)",
    "jax.numpy.pad",
    reads={
        "before": "(0,) * (input.dim() - len(pad) // 2) + tuple(pad[-2::-2])",
        "after": "(0,) * (input.dim() - len(pad) // 2) + tuple(pad[::-2])",
    },
)

op = composite(
    "pad",
    type_rule,
    program,
    (concat,),
    edges=EDGES,
    refused=REFUSED,
    tried=TRIED,
    elsewhere=ELSEWHERE,
)
