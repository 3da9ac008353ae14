"""Losses of rows that shall lie near one row and far from another."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import usual
from equivalence.cases.families.entries.elementwise import alike
from equivalence.cases.families.exactly import FEW_EXTENTS, SHAPES
from equivalence.cases.families.family import FACTOR, Family, Offer, Operands, Picks, has_elements
from equivalence.cases.families.growing import MANY_ROWS, SPREAD, Bearing, Growth, fixed, grows
from equivalence.cases.families.losses.reduced import REDUCED, reduced_as, with_reduction
from equivalence.cases.families.shapes import (
    BESIDE,
    RANKS,
    around,
    many_lie_beside_short_ones,
    shape,
)
from equivalence.cases.families.signatures import Draw, Signature, always, chosen
from spec.op import Op

ROWS_APART: Factors = {
    "rank": RANKS,
    "extent": (33, 1, 2, 8, 31, 64, 65, 257, 513),
    "rows": BESIDE,
}

MOST_APART = {"value": 600, "vjp": 300, "jvp": 300}
"""So many entries, at most, lie in rows with others beside them."""


def _factors(op: Op) -> Factors:
    return {"reduction": REDUCED, **ROWS_APART, **op.tried}


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, _ = around({**levels, "place": "last"}, MOST_APART[direction])
    return with_reduction(alike(op, own, levels), levels["reduction"])


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    levels = chosen(draw, op)
    own = shape(draw, ENOUGH, 120, min_rank=1, max_rank=3)
    return with_reduction(alike(op, own, levels), draw(st.sampled_from(("none", "mean", "sum"))))


def _small(draw: Draw, op: Op) -> Signature:
    reduction = draw(st.sampled_from(["mean", "sum", "none"]))
    rows = draw(SHAPES.filter(lambda shape: math.prod(shape) > 0 or reduction != "mean"))
    return with_reduction(alike(op, (*rows, draw(FEW_EXTENTS)), chosen(draw, op)), reduction)


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    first = offer.entry(picks[0], lambda shape: len(shape) > 0 and has_elements(shape), FACTOR)
    if first is None:
        return None
    fits = offer.shapes[first].__eq__
    second, third = (offer.entry(pick, fits, FACTOR) for pick in picks[1:3])
    if second is None or third is None:
        return None
    return (first, second, third), {**usual(op), "eps": 0.25, "reduction": reduced_as(picks[2])}


GROWTHS = (
    Growth("columns", fixed(lambda n: ((8, n),) * 3, reduction="none"), 2**17, 8_201, SPREAD),
    Growth("rows", fixed(lambda n: ((n, 9),) * 3, reduction="none"), MANY_ROWS, 2_731, SPREAD),
)


def _spread(op: Op, k: int) -> float:
    # The negatives lie nearer, so that no rounding decides whether one is lost.
    return 0.25 if k == 2 else 1.0


TRIPLETS = Family(
    name="losses of triplets",
    factors=_factors,
    rules=(many_lie_beside_short_ones,),
    call=_call,
    empty=always(
        (((0, 3),) * 3, {"reduction": "none"}),
        (((2, 0),) * 3, {"reduction": "none"}),
        (((3,),) * 3, {}),
    ),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(spread=_spread),
    operands=_operands,
)
