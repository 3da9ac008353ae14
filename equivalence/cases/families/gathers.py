"""Ops that read or add entries at positions that another input holds, or write positions down."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.family import (
    NAMES,
    PLACES,
    RANKS,
    Call,
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Shape,
    Signature,
    always,
    around,
    extent,
    has_elements,
    is_matrix,
    named,
    named_axis,
    place_is_its_own,
    shape,
)
from spec.op import Op

TAKEN: Factors = {
    "rank": RANKS,
    "place": PLACES,
    "extent": (33, 1, 2, 8, 9, 31, 64, 65, 257),
    "indices": ((7,), (), (1,), (33,), (3, 4), (2, 2, 2), (300,)),
    "name": NAMES,
}
"""The axis that is read along, and the shape of the indices, one of many that meet often."""

PICKED: Factors = {
    **{name: levels for name, levels in TAKEN.items() if name != "indices"},
    "length": (7, 1, 2, 9, 33, 65, 300),
}
"""The axis that is read along, and how far the indices reach along it."""

LOOKED_UP: Factors = {
    "rows": (33, 1, 2, 8, 9, 65, 257),
    "columns": (33, 1, 2, 8, 9, 64, 65, 257),
    "indices": TAKEN["indices"],
}

WRITTEN: Factors = {
    "classes": (10, 1, 2, 8, 9, 33, 65, 257),
    "indices": TAKEN["indices"],
}

MOST = 2400
"""So many entries, at most, are read."""


def _factors(op: Op) -> Factors:
    return TAKEN


def _beside(levels: Levels) -> int:
    """Return how many entries may lie in the input, so that not too many are read."""
    extent: int = levels["extent"]
    return min(600, max(MOST // math.prod(levels["indices"]), 1) * extent)


def _taken(op: Op, direction: str, levels: Levels) -> Signature:
    """Read along an axis; a value is counted by what is read."""
    own, axis = around(levels, _beside(levels), -(-ENOUGH // math.prod(levels["indices"])))
    return (own, levels["indices"]), {"axis": named(axis, len(own), levels["name"])}


def _scattered(op: Op, direction: str, levels: Levels) -> Signature:
    """Add what takes would read."""
    (own, indices), attrs = _taken(op, direction, levels)
    return (own, indices, _in_place(own, attrs["axis"], indices)), attrs


def _in_place(own: Shape, axis: int, indices: Shape) -> Shape:
    """Return a shape with that of the indices in place of an axis."""
    at = axis % len(own)
    return (*own[:at], *indices, *own[at + 1 :])


def _picked(op: Op, direction: str, levels: Levels) -> Signature:
    """Read along an axis at positions of their own."""
    length = levels["length"]
    own, axis = around(levels, _beside({**levels, "indices": (length,)}), -(-ENOUGH // length))
    name = named(axis, len(own), levels["name"])
    return (own, _in_place(own, axis, (length,))), {"axis": name}


def few_are_looked_up(rows: int, columns: int, indices: Shape) -> bool:
    """Long rows are few, in the table and in the result."""
    return max(rows, math.prod(indices)) * columns <= MOST


def _looked_up(op: Op, direction: str, levels: Levels) -> Signature:
    return (levels["indices"], (levels["rows"], levels["columns"])), {}


def few_are_written(classes: int, indices: Shape) -> bool:
    """Many classes are written for few indices."""
    return math.prod(indices) * classes <= MOST


def _written(op: Op, direction: str, levels: Levels) -> Signature:
    return (levels["indices"],), {"classes": levels["classes"]}


def classes_differ(call: Call) -> bool:
    """One class is always there."""
    return bool(call.attributes["classes"] > 1)


def _draw_take(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    rest = math.prod(own) // own[axis]
    indices = shape(draw, -(-ENOUGH // rest), 24, max_rank=2)
    return (own, indices), {"axis": named_axis(draw, axis, len(own))}


def _draw_scatter(draw: Draw, op: Op, direction: str) -> Signature:
    (own, indices), attrs = _draw_take(draw, op, direction)
    return (own, indices, _in_place(own, attrs["axis"], indices)), attrs


def _draw_pick(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    length = extent(draw, 24, -(-ENOUGH * own[axis] // math.prod(own)))
    return (own, _in_place(own, axis, (length,))), {"axis": named_axis(draw, axis, len(own))}


def _draw_lookup(draw: Draw, op: Op, direction: str) -> Signature:
    rows = extent(draw, 9)
    columns = extent(draw, 17, -(-ENOUGH // rows))
    return (shape(draw, -(-ENOUGH // columns), 12, max_rank=2), (rows, columns)), {}


def _draw_written(draw: Draw, op: Op, direction: str) -> Signature:
    return (shape(draw, ENOUGH, 40, max_rank=3),), {"classes": extent(draw, 33)}


def _has_rows(shape: Shape) -> bool:
    return bool(shape) and shape[0] > 0


def _take(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], _has_rows)
    if x is None:
        return None
    return (x, offer.indices(picks[1], offer.shapes[x][0])), {"axis": 0}


def _scatter(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], _has_rows)
    if x is None:
        return None
    extent, *rest = offer.shapes[x]
    source = offer.entry(picks[1], lambda shape: bool(shape) and shape[1:] == tuple(rest))
    assert source is not None
    return (x, offer.labels(picks[2], offer.shapes[source][0], extent), source), {"axis": 0}


def _pick(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Find what has entries: indices that are written down keep no extent behind one of 0."""
    x = offer.entry(picks[0], lambda shape: _has_rows(shape) and has_elements(shape))
    if x is None:
        return None
    extent, *rest = offer.shapes[x]
    return (x, offer.positions(picks[1], (2, *rest), extent)), {"axis": 0}


def _lookup(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    weight = offer.entry(picks[0], lambda shape: is_matrix(shape) and shape[0] > 0)
    if weight is None:
        return None
    return (offer.indices(picks[1], offer.shapes[weight][0]), weight), {}


def _write(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    classes = picks[0] % 4 + 1
    return (offer.indices(picks[1], classes),), {"classes": classes}


TAKES = Family(
    "gathers",
    _factors,
    (place_is_its_own,),
    _taken,
    always((((4, 3), (0,)), {"axis": 0}), (((4, 0), (2,)), {"axis": 0})),
    _draw_take,
    _take,
)
SCATTERS = Family(
    "scatters",
    _factors,
    (place_is_its_own,),
    _scattered,
    always((((4, 3), (0,), (0, 3)), {"axis": 0}), (((4, 0), (2,), (2, 0)), {"axis": 0})),
    _draw_scatter,
    _scatter,
)
PICKS = Family(
    "picks",
    lambda op: PICKED,
    (place_is_its_own,),
    _picked,
    always((((4, 3), (0, 3)), {"axis": 0}), (((4, 0), (2, 0)), {"axis": 0})),
    _draw_pick,
    _pick,
)
LOOKUPS = Family(
    "lookups",
    lambda op: LOOKED_UP,
    (few_are_looked_up,),
    _looked_up,
    always((((0,), (4, 3)), {}), (((2,), (4, 0)), {}), (((0, 2), (0, 3)), {})),
    _draw_lookup,
    _lookup,
)
CLASSES = Family(
    "classes",
    lambda op: WRITTEN,
    (few_are_written,),
    _written,
    always((((0,),), {"classes": 3}), (((0, 2),), {"classes": 2}), (((),), {"classes": 1})),
    _draw_written,
    _write,
    (classes_differ,),
)
