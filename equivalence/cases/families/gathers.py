"""Ops that read or add entries along one axis, at positions that another input holds."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.families.family import (
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Shape,
    Signature,
    always,
    calls,
    named_axis,
    shape,
    signature_of,
)
from spec.op import Op

TAKEN: tuple[Signature, ...] = (
    (((9, 5), (7,)), {"axis": 0}),
    (((4, 33), (9,)), {"axis": 1}),
    (((3, 5, 7), (2,)), {"axis": 1}),
    (((65, 3), (33,)), {"axis": 0}),
    (((10,), (9,)), {"axis": 0}),
    (((2, 9), (3, 4)), {"axis": -1}),
    (((1, 9), (17,)), {"axis": 0}),
    (((257,), (31,)), {"axis": -1}),
    (((5, 4), (2, 2, 2)), {"axis": 0}),
    (((8, 9), ()), {"axis": 0}),
    (((3, 2, 9), (1,)), {"axis": 2}),
    (((33, 8), (65,)), {"axis": 0}),
)


def _in_place(own: Shape, axis: int, indices: Shape) -> Shape:
    """Return a shape with that of the indices in place of an axis."""
    at = axis % len(own)
    return (*own[:at], *indices, *own[at + 1 :])


def _with_sources(takes: tuple[Signature, ...]) -> tuple[Signature, ...]:
    """Give what takes take a source of the shape of the result, and one entry many terms."""
    pairs = (*((x, indices, attrs["axis"]) for (x, indices), attrs in takes), ((3, 3), (300,), 0))
    return tuple(
        ((x, indices, _in_place(x, axis, indices)), {"axis": axis}) for x, indices, axis in pairs
    )


def _draw_take(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    rest = math.prod(own) // own[axis]
    indices = shape(draw, -(-ENOUGH // rest), 24, max_rank=2)
    return (own, indices), {"axis": named_axis(draw, axis, len(own))}


def _draw_scatter(draw: Draw, op: Op, direction: str) -> Signature:
    (own, indices), attrs = _draw_take(draw, op, direction)
    return (own, indices, _in_place(own, attrs["axis"], indices)), attrs


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


TAKES = Family(
    "gathers",
    calls(*TAKEN),
    signature_of,
    always((((4, 3), (0,)), {"axis": 0}), (((4, 0), (2,)), {"axis": 0})),
    _draw_take,
    _take,
)
SCATTERS = Family(
    "scatters",
    calls(*_with_sources(TAKEN)),
    signature_of,
    always((((4, 3), (0,), (0, 3)), {"axis": 0}), (((4, 0), (2,), (2, 0)), {"axis": 0})),
    _draw_scatter,
    _scatter,
)
