"""Ops that act entry by entry: on inputs of one shape, which is the result's."""

from __future__ import annotations

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import domain, usual
from equivalence.cases.families.family import (
    FACTOR,
    PLACES,
    RANKS,
    TERM,
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Shape,
    Signature,
    around,
    everything,
    has_elements,
    place_is_its_own,
    result,
    shape,
)
from spec.op import Op
from spec.tensor import tensor

SIZES: Factors = {
    "rank": (*RANKS, 0),
    "place": PLACES,
    "extent": (33, 1, 7, 8, 9, 31, 64, 65, 127, 257, 1024, 1025),
}
"""Ranks with a long axis somewhere: one entry, and the neighbours of likely tiles."""


def one_entry_has_no_axis(rank: int, extent: int) -> bool:
    """A tensor of no axis has one entry."""
    return rank > 0 or extent == 1


SIZED = (place_is_its_own, one_entry_has_no_axis)

NOTHING: tuple[Shape, ...] = ((3, 0), ())


def alike(op: Op, shape: Shape, levels: Levels | None = None) -> Signature:
    """Return the call of an op whose inputs are all of one shape, with the attributes chosen."""
    attributes = usual(op) if levels is None else {name: levels[name] for name in op.tried}
    return (shape,) * len(op.inputs), attributes


def _factors(op: Op) -> Factors:
    return {**SIZES, **op.tried}


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    return alike(op, around(levels)[0], levels)


def _empty(op: Op) -> tuple[Signature, ...]:
    return tuple(alike(op, nothing) for nothing in NOTHING)


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    levels = {name: draw(st.sampled_from(among)) for name, among in op.tried.items()}
    entries = shape(draw, ENOUGH, 300)
    chosen = alike(op, entries, levels)
    return alike(op, entries) if result(op, chosen) is None else chosen


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Find entries of one shape, now and then one entry again; for indices write a mask."""
    if op.converts:
        cast = offer.cast(picks[0])
        return None if cast is None else ((cast[0],), {"to": cast[1]})
    nonempty = has_elements if op.index_inputs else everything
    again = picks[2] % 3 == 0
    found: dict[int, int] = {}
    first: Shape | None = None
    for k in range(len(op.inputs)):
        if k in op.index_inputs:
            continue
        fits = nonempty if first is None else first.__eq__
        pick = picks[0] if again else picks[len(found) % 3]
        entry = offer.entry(pick, fits, _most(op), domain(op, k))
        if entry is None:
            return None
        found[k], first = entry, offer.shapes[entry]
    if first is None:
        return None
    inputs = [
        offer.mask(picks[2], first) if k in op.index_inputs else found[k]
        for k in range(len(op.inputs))
    ]
    return tuple(inputs), usual(op)


def _most(op: Op) -> float:
    """Return the largest magnitude for an op: less for what grows faster than a sum."""
    if any(domain(op, k) != "real" for k in range(len(op.inputs))):
        return FACTOR
    large = [tensor(True if k in op.mask_inputs else TERM) for k in range(len(op.inputs))]
    return TERM if abs(op.value(*large, **usual(op)).data[0]) <= 2 * TERM else FACTOR


ELEMENTWISE = Family(
    "elementwise", _factors, SIZED, _call, _empty, _draw, _operands, keeps_shape=True
)
