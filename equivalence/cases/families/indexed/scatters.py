"""Ops that add entries along an axis, at positions that all the other axes share."""

from __future__ import annotations

from equivalence.cases.covering import Levels
from equivalence.cases.families.family import (
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Bearing, Growth, at_most, fixed, grows
from equivalence.cases.families.indexed.reading import (
    TAKEN,
    draw_take,
    has_a_row,
    in_place,
    small_take,
    taken,
)
from equivalence.cases.families.shapes import place_is_its_own
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    """Add what takes would read."""
    (own, indices), attrs = taken(op, direction, levels)
    return (own, indices, in_place(own, attrs["axis"], indices)), attrs


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    (own, indices), attrs = draw_take(draw, op, direction)
    return (own, indices, in_place(own, attrs["axis"], indices)), attrs


def _small(draw: Draw, op: Op) -> Signature:
    (source, picked), attrs = small_take(draw, op)
    return (source, picked, in_place(source, attrs["axis"], picked)), attrs


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], has_a_row)
    if x is None:
        return None
    extent, *rest = offer.shapes[x]
    source = offer.entry(picks[1], lambda shape: bool(shape) and shape[1:] == tuple(rest))
    assert source is not None
    return (x, offer.labels(picks[2], offer.shapes[source][0], extent), source), {"axis": 0}


def _sample(sampler: Sampler, op: Op) -> Sample:
    rows = sampler.rows
    return [sampler.matrix(), sampler.below(rows, 6), sampler.normal(6, sampler.columns)], {
        "axis": 0
    }


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n, 16), (n // 16,), (n // 16, 16)), axis=0), MANY_ROWS, 2_731),
    Growth("columns", fixed(lambda n: ((8, n), (999,), (8, 999)), axis=1), 2**17, 4_101),
    Growth("indices", fixed(lambda n: ((513, 16), (n,), (n, 16)), axis=0), 2**13 + 1, 1_025),
)

SCATTERS = Family(
    name="scatters",
    factors=varied(TAKEN),
    rules=(place_is_its_own,),
    call=_call,
    empty=always((((4, 3), (0,), (0, 3)), {"axis": 0}), (((4, 0), (2,), (2, 0)), {"axis": 0})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(most=at_most(127)),
    operands=_operands,
    sample=_sample,
)
