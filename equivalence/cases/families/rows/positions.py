"""Ops that find the place of an entry along an axis, or among all entries."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import SHAPES
from equivalence.cases.families.family import (
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    has_elements,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Growth, fixed, grows
from equivalence.cases.families.rows.reductions import FACTORS, axis_of
from equivalence.cases.families.shapes import (
    NAMES,
    around,
    extent,
    many_lie_beside_short_ones,
    named,
    named_axis,
    one_entry_leads_where_the_other_axis_does_not,
    place_is_its_own,
    shape,
)
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op

PLACED: Factors = {
    **{name: FACTORS[name] for name in ("rank", "place", "extent", "rows", "keepdims")},
    "name": (*NAMES, "none"),
}
"""The axis along which a place is found, or none: all entries in their order."""


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    """Find places along an axis; a value is counted by the slices beside it."""
    own, axis = around(levels, 2100, ENOUGH)
    at = None if levels["name"] == "none" else named(axis, len(own), levels["name"])
    return (own,), {"axis": at, "keepdims": levels["keepdims"]}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 128, min_rank=1, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    length = extent(draw, 64)
    at = draw(st.sampled_from([None, named_axis(draw, axis, len(own) + 1)]))
    whole = (*own[:axis], length, *own[axis:])
    return (whole,), {"axis": at, "keepdims": draw(st.booleans())}


def _small(draw: Draw, op: Op) -> Signature:
    own = draw(SHAPES.filter(lambda shape: math.prod(shape) > 0))
    axes = range(-len(own), len(own))
    return (own,), {"axis": draw(st.sampled_from([None, *axes])), "keepdims": draw(st.booleans())}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], has_elements)
    if x is None:
        return None
    return (x,), {"axis": axis_of(offer.shapes[x], picks), "keepdims": bool(picks[2] % 2)}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix()], {"axis": 1}


GROWTHS = (
    Growth("columns", fixed(lambda n: ((8, n),), axis=1), 2**17, 2**13),
    Growth("rows", fixed(lambda n: ((n, 16),), axis=1), MANY_ROWS, 2_731),
    Growth("outer", fixed(lambda n: ((n, 8),), axis=0), 2**17, 2**12),
    Growth("elements", fixed(lambda n: ((n, 4),), axis=None), 2**20, 2**13),
)

POSITIONS = Family(
    name="positions",
    factors=varied(PLACED),
    rules=(
        place_is_its_own,
        many_lie_beside_short_ones,
        one_entry_leads_where_the_other_axis_does_not,
    ),
    call=_call,
    empty=always((((0, 3),), {"axis": 1}), (((),), {}), (((1, 1),), {"keepdims": True})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    sample=_sample,
)
