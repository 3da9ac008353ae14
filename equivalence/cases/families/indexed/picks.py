"""Ops that read entries along an axis, at positions of their own for every entry."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import FEW_EXTENTS, WITH_AXES, an_axis
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
from equivalence.cases.families.growing import MANY_ROWS, Bearing, Growth, fixed, grows
from equivalence.cases.families.indexed.reading import TAKEN, beside, has_a_row, in_place
from equivalence.cases.families.shapes import (
    around,
    extent,
    named,
    named_axis,
    place_is_its_own,
    shape,
)
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op

PICKED: Factors = {
    **{name: levels for name, levels in TAKEN.items() if name != "indices"},
    "length": (7, 1, 2, 9, 33, 65, 300),
}
"""The axis that is read along, and how far the indices reach along it."""


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    """Read along an axis at positions of their own."""
    length = levels["length"]
    own, axis = around(levels, beside({**levels, "indices": (length,)}), -(-ENOUGH // length))
    name = named(axis, len(own), levels["name"])
    return (own, in_place(own, axis, (length,))), {"axis": name}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    length = extent(draw, 24, -(-ENOUGH * own[axis] // math.prod(own)))
    return (own, in_place(own, axis, (length,))), {"axis": named_axis(draw, axis, len(own))}


def _small(draw: Draw, op: Op) -> Signature:
    source = draw(WITH_AXES)
    axis = an_axis(draw, len(source))
    length: int = draw(FEW_EXTENTS) if source[axis] else 0
    return (source, in_place(source, axis, (length,))), {"axis": axis}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Find what has entries: indices that are written down keep no extent behind one of 0."""
    x = offer.entry(picks[0], lambda shape: has_a_row(shape) and has_elements(shape))
    if x is None:
        return None
    extent, *rest = offer.shapes[x]
    return (x, offer.positions(picks[1], (2, *rest), extent)), {"axis": 0}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix(), sampler.below(sampler.rows, 6, sampler.columns)], {"axis": 0}


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n, 16), (n // 16, 16)), axis=0), MANY_ROWS, 2_731),
    Growth("columns", fixed(lambda n: ((8, n), (8, n // 16)), axis=1), 2**17, 4_101),
    Growth("indices", fixed(lambda n: ((513, 16), (n, 16)), axis=0), 2**13 + 1, 1_025),
)

PICKS = Family(
    name="picks",
    factors=varied(PICKED),
    rules=(place_is_its_own,),
    call=_call,
    empty=always((((4, 3), (0, 3)), {"axis": 0}), (((4, 0), (2, 0)), {"axis": 0})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(added=True),
    operands=_operands,
    sample=_sample,
)
