"""Choose between two tensors, entry by entry, by a mask.

    z[i] = x[i] if mask[i] else y[i]

C1  all shapes are equal: a primitive never broadcasts.
C2  the mask is boolean: its entries are True or False.

The transpose chooses as well, where a product with 0 would not do: the side that is not chosen
receives exactly 0, even from a cotangent that is infinite or NaN.

Reference: NumPy's where, with three arguments.

>>> from spec.tensor import tensor
>>> mask, x, y = tensor([True, False]), tensor([1, 2]), tensor([10, 20])
>>> op(mask, x, y)
Tensor([1, 20])
>>> op.vjp((mask, x, y), tensor([5, 7]))
(None, Tensor([5, 0]), Tensor([0, 7]))
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, TypeVarTuple

from spec.kinds import jointly_linear, same_shape
from spec.op import AnyTensor, Edge, Elsewhere, Type, refuse
from spec.refusals import Miss
from spec.scalar import select, zero_like
from spec.tensor import Tensor, zip_map

A = TypeVar("A")
Dims = TypeVarTuple("Dims")


def type_rule(mask: Type, x: Type, y: Type) -> Type:
    """Accept three tensors of one shape (C1), of which the first is a mask (C2)."""
    same_shape("where", x, y, mask)
    if not mask.mask:
        raise refuse("where C2", "the mask is boolean: its entries are True or False", mask)
    return x


def value(mask: Tensor[bool, *Dims], x: Tensor[A, *Dims], y: Tensor[A, *Dims]) -> Tensor[A, *Dims]:
    """Take x where the mask is true and y where it is not."""
    return zip_map(select, mask, x, y)


def transposes(
    cotangent: AnyTensor, mask: AnyTensor, x: AnyTensor, y: AnyTensor
) -> tuple[AnyTensor | None, ...]:
    """Send the cotangent to the side that was chosen, and 0 to the other."""
    del x, y
    return None, zip_map(_to_x, mask, cotangent), zip_map(_to_y, mask, cotangent)


def _to_x(chosen: Any, g: Any) -> Any:
    return select(chosen, g, zero_like(g))


def _to_y(chosen: Any, g: Any) -> Any:
    return select(chosen, zero_like(g), g)


_BOTH: tuple[Any, ...] = ([True, False], [1.0, 2.0], [3.0, 4.0])

EDGES = (
    Edge(
        ([True, False], [-0.0, math.nan], [math.nan, math.inf]),
        ([-0.0, math.inf],),
        "IEEE",
        "what is not chosen does not show, what is chosen is passed on as it is",
    ),
    Edge(([True, False], [math.nan, 1.0], [1.0, math.nan]), ([math.nan] * 2,), "IEEE", "NaN"),
    Edge(
        _BOTH,
        ((None, [math.nan, 0.0], [0.0, math.inf]),),
        "CHOICE",
        "the side that is not chosen receives 0 from NaN and from infinity",
        cotangent=[math.nan, math.inf],
    ),
    Edge(
        _BOTH,
        ((None, [-math.inf, 0.0], [0.0, math.nan]),),
        "CHOICE",
        "the side that is not chosen receives 0, whichever side it is",
        cotangent=[-math.inf, math.nan],
    ),
    Edge(([], [], []), ([],), "IEEE", "an empty axis stays empty"),
    Edge((True, 1.0, 2.0), (1.0,), "IEEE", "a single entry"),
)

REFUSED = (
    *(Miss("C1", ([True, False], *sides)) for sides in (([1.0, 2.0], [1.0]), ([1.0], [1.0, 2.0]))),
    *(Miss("C1", (mask, [1.0, 2.0], [3.0, 4.0])) for mask in ([True], True, [[True, False]] * 2)),
    *(Miss("C2", (mask, [1.0, 2.0], [3.0, 4.0])) for mask in ([1, 0], [1.0, 0.0], [True, 0])),
)

ELSEWHERE = Elsewhere("torch.where(mask, x, y)", "jax.numpy.where")

op = jointly_linear(
    "where",
    type_rule,
    value,
    transposes,
    index_inputs=(0,),
    mask_inputs=(0,),
    edges=EDGES,
    refused=REFUSED,
    elsewhere=ELSEWHERE,
)
