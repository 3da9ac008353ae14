"""Ops that repeat entries along axes of one entry, and along new ones."""

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
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, WHOLE, Bearing, Growth, grown, grows
from equivalence.cases.families.moves.placed import PLACED, one_number_moves_nowhere
from equivalence.cases.families.shapes import around, extent, place_is_its_own, shape
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op

BROADCAST: Factors = {
    **PLACED,
    "repeated": ("long", "others", "ends", "all", "none"),
    "leading": (0, 1, 2),
}
"""The axes that are repeated, and how many of the result's first axes the input lacks."""


def axes_of_one_are_repeated(extent: int, repeated: str) -> bool:
    """A long axis of one entry is not repeated."""
    return extent > 1 or repeated != "long"


def other_axes_are_there(rank: int, repeated: str) -> bool:
    """Other axes need a second one, and two ends a third."""
    return rank >= {"others": 2, "ends": 3}.get(repeated, 1)


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    target, axis = around(levels)
    rank = len(target)
    repeated = {
        "long": {axis},
        "others": set(range(rank)) - {axis},
        "ends": {0, rank - 1},
        "all": set(range(rank)),
        "none": set[int](),
    }[levels["repeated"]]
    own = tuple(1 if k in repeated else n for k, n in enumerate(target))
    lacking = (1, 2)[: levels["leading"]] if math.prod(target) < 600 else (1,) * levels["leading"]
    return (own,), {"shape": (*lacking[::-1], *target)}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = list(shape(draw, ENOUGH, 32, max_rank=2))
    own.insert(draw(st.integers(0, len(own))), 1)
    target = [extent(draw, 9) if n == 1 else n for n in own]
    lead = shape(draw, 1, 4, max_rank=1)
    return (tuple(own),), {"shape": (*lead, *target)}


def _small(draw: Draw, op: Op) -> Signature:
    target = draw(SHAPES)
    kept = target[draw(st.integers(0, len(target))) :]
    return (tuple(1 if draw(st.booleans()) else n for n in kept),), {"shape": target}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: math.prod(shape) <= 3)
    if x is None:
        return None
    shape = tuple(2 if n == 1 else n for n in offer.shapes[x])
    return (x,), {"shape": (2, *shape) if picks[1] % 2 or shape == offer.shapes[x] else shape}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.normal(1, sampler.columns)], {"shape": (sampler.rows, sampler.columns)}


GROWTHS = (
    Growth("columns", grown(lambda n: ((n,),), lambda n: {"shape": (8, n)}), 2**17, 8_201),
    Growth("rows", grown(lambda n: ((n, 1),), lambda n: {"shape": (n, 16)}), MANY_ROWS, 2_731),
    Growth(
        "outer", grown(lambda n: ((16,),), lambda n: {"shape": (n, 16)}), MANY_ROWS, 2_731, WHOLE
    ),
)

BROADCASTS = Family(
    name="broadcasts",
    factors=varied(BROADCAST),
    rules=(place_is_its_own, axes_of_one_are_repeated, other_axes_are_there),
    call=_call,
    empty=always((((1,),), {"shape": (0,)}), (((0, 1),), {"shape": (2, 0, 3)})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(shared=True, added=True),
    operands=_operands,
    sample=_sample,
    shows=(one_number_moves_nowhere,),
)
