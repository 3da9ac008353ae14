"""Ops that put entries of one value around a tensor."""

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
)
from equivalence.cases.families.growing import MANY_ROWS, Growth, fixed, grows
from equivalence.cases.families.moves.placed import PLACED, one_number_moves_nowhere
from equivalence.cases.families.shapes import around, place_is_its_own, shape
from equivalence.cases.families.signatures import Draw, Signature, always, chosen
from spec.op import Op

PADDED: Factors = {
    **PLACED,
    "around": ("both", "before", "after", "all", "others", "none"),
    "width": (1, 2, 9, 33),
}
"""Where a tensor grows, and by how much along its long axis."""


def _factors(op: Op) -> Factors:
    return {**PADDED, **op.tried}


def what_grows_everywhere_is_small(rank: int, extent: int, width: int, around: str) -> bool:
    """Several axes need a second, and cost too much where they are many, long or grow far."""
    return around not in ("all", "others") or (1 < rank < 5 and extent < 129 and width < 9)


def no_width_is_one(width: int, value: float, around: str) -> bool:
    """Where nothing is put around, neither its width nor its value matters."""
    return around != "none" or (width == 1 and value == 0.0)


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels)
    width, where = levels["width"], levels["around"]
    before, after = [0] * len(own), [0] * len(own)
    if where in ("all", "others"):
        before = [k % 2 for k in range(len(own))]
        after = [1] * len(own)
    if where != "none":
        before[axis] = 0 if where in ("after", "others") else width
        after[axis] = {"both": width + 1, "all": 1, "after": width}.get(where, 0)
    tried = {name: levels[name] for name in op.tried}
    return (own,), {"before": tuple(before), "after": tuple(after), **tried}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 100, max_rank=3)
    before, after = (tuple(draw(st.integers(0, 3)) for _ in own) for _ in range(2))
    fill: float = draw(st.sampled_from((0.0, 1.0, -0.5)))
    return (own,), {"before": before, "after": after, "value": fill}


def _small(draw: Draw, op: Op) -> Signature:
    source = draw(SHAPES)
    before, after = (tuple(draw(st.integers(0, 2)) for _ in source) for _ in range(2))
    return (source,), {"before": before, "after": after, **chosen(draw, op)}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: math.prod(shape) <= 6)
    if x is None:
        return None
    before, after = (tuple((p + k) % 3 % 2 for k in range(len(offer.shapes[x]))) for p in picks[1:])
    return (x,), {"before": before, "after": after, "value": float(picks[2] % 3)}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix()], {"before": (1, 1), "after": (1, 1)}


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n, 16),), before=(1, 0), after=(2, 1)), MANY_ROWS, 2_731),
    Growth("columns", fixed(lambda n: ((8, n),), before=(0, 3), after=(0, 2)), 2**17, 8_201),
)

PADS = Family(
    name="paddings",
    factors=_factors,
    rules=(place_is_its_own, what_grows_everywhere_is_small, no_width_is_one),
    call=_call,
    empty=always(
        (((0, 3),), {"before": (1, 0), "after": (1, 0), "value": 1.5}),
        (((),), {"before": (), "after": ()}),
        (((0,),), {"before": (0,), "after": (0,)}),
    ),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    sample=_sample,
    shows=(one_number_moves_nowhere,),
)
