"""Losses of predictions against targets of the same shape."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import domain, usual
from equivalence.cases.families.entries.elementwise import SIZED, SIZES, alike
from equivalence.cases.families.exactly import SHAPES
from equivalence.cases.families.family import FACTOR, Family, Offer, Operands, Picks, has_elements
from equivalence.cases.families.growing import MANY_ROWS, WHOLE, Bearing, Growth, fixed, grows
from equivalence.cases.families.losses.reduced import REDUCED, reduced_as, with_reduction
from equivalence.cases.families.shapes import around, shape
from equivalence.cases.families.signatures import Draw, Signature, always, chosen
from spec.op import Op


def _factors(op: Op) -> Factors:
    return {**SIZES, **op.tried, "reduction": REDUCED}


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    return with_reduction(alike(op, around(levels)[0], levels), levels["reduction"])


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw losses per entry more often: a value that is reduced has one element to judge."""
    drawn = shape(draw, ENOUGH, 300)
    among = ("none", "none", "mean", "sum") if direction == "value" else ("mean", "none", "sum")
    return with_reduction(alike(op, drawn, chosen(draw, op)), draw(st.sampled_from(among)))


def _small(draw: Draw, op: Op) -> Signature:
    reduction = draw(st.sampled_from(["mean", "sum", "none"]))
    own = draw(SHAPES.filter(lambda shape: math.prod(shape) > 0 or reduction != "mean"))
    return with_reduction(alike(op, own, chosen(draw, op)), reduction)


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], has_elements, FACTOR, domain(op, 0))
    if x is None:
        return None
    y: Any = None
    if op.mask_inputs:
        y = offer.mask(picks[1], offer.shapes[x])
    else:
        y = offer.entry(picks[1], offer.shapes[x].__eq__, FACTOR, domain(op, 1))
    if y is None:
        return None
    return (x, y), {**usual(op), "reduction": reduced_as(picks[2])}


GROWTHS = (
    Growth("elements", fixed(lambda n: ((n,), (n,)), reduction="mean"), 2**20, 2**14, WHOLE),
    Growth("rows", fixed(lambda n: ((n, 9), (n, 9)), reduction="none"), MANY_ROWS, 2_731),
    Growth("elements", fixed(lambda n: ((n,), (n,)), reduction="sum"), 2**20, 2**14, WHOLE),
)
"""Where a mean is judged to the bit it has a power of two of terms."""


def _most(op: Op, k: int, exponent: int) -> int | None:
    # Of 0 and 1 the logarithms are exact, or not looked at.
    return 1 if domain(op, k) == "positive" else 3


DISTANCES = Family(
    name="losses of distances",
    factors=_factors,
    rules=SIZED,
    call=_call,
    empty=always(
        (((0,), (0,)), {"reduction": "sum"}),
        (((0, 3), (0, 3)), {"reduction": "none"}),
        (((), ()), {}),
    ),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(most=_most),
    operands=_operands,
)
