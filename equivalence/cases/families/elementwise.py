"""Ops that act entry by entry: on inputs of one shape, which is the result's."""

from __future__ import annotations

from equivalence.cases.call import ENOUGH
from equivalence.cases.domains import domain
from equivalence.cases.families.family import (
    FACTOR,
    TERM,
    Draw,
    Factors,
    Family,
    Levels,
    Offer,
    Operands,
    Picks,
    Shape,
    Signature,
    everything,
    has_elements,
    shape,
)
from spec.op import Op
from spec.tensor import tensor

SHAPES: tuple[Shape, ...] = (
    (33,),
    (4, 65),
    (3, 5, 7),
    (1025,),
    (2, 17),
    (5, 31),
    (257, 2),
    (1, 1, 9),
    (1024,),
    (2, 2, 2, 2),
    (1023,),
    (2, 1024),
)
"""One past a tile, a tile less one, whole tiles, a prime here and there, axes of one."""

NOTHING: tuple[Shape, ...] = ((3, 0), ())


def alike(op: Op, shape: Shape) -> Signature:
    """Return the call of an op whose inputs are all of one shape."""
    return (shape,) * len(op.inputs), {}


def _factors(op: Op) -> Factors:
    return {"shape": SHAPES}


def _call(op: Op, levels: Levels) -> Signature:
    return alike(op, levels["shape"])


def _empty(op: Op) -> tuple[Signature, ...]:
    return tuple(alike(op, nothing) for nothing in NOTHING)


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    return alike(op, shape(draw, ENOUGH, 300))


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Find entries of one shape, for an index input write a mask of that shape."""
    nonempty = has_elements if op.index_inputs else everything
    found: dict[int, int] = {}
    first: Shape | None = None
    for k in range(len(op.inputs)):
        if k in op.index_inputs:
            continue
        fits = nonempty if first is None else first.__eq__
        entry = offer.entry(picks[len(found) % 3], fits, _most(op), domain(op, k))
        if entry is None:
            return None
        found[k], first = entry, offer.shapes[entry]
    if first is None:
        return None
    inputs = [
        offer.mask(picks[2], first) if k in op.index_inputs else found[k]
        for k in range(len(op.inputs))
    ]
    return tuple(inputs), {}


def _most(op: Op) -> float:
    """Return the largest magnitude for an op: less for what grows faster than a sum."""
    if any(domain(op, k) != "real" for k in range(len(op.inputs))):
        return FACTOR
    large = [tensor(True if k in op.mask_inputs else TERM) for k in range(len(op.inputs))]
    return TERM if abs(op.value(*large).data[0]) <= 2 * TERM else FACTOR


ELEMENTWISE = Family("elementwise", _factors, _call, _empty, _draw, _operands, keeps_shape=True)
