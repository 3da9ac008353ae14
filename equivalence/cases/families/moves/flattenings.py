"""Ops that make neighbouring axes one."""

from __future__ import annotations

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import SHAPES
from equivalence.cases.families.family import Family, Offer, Operands, Picks, everything, varied
from equivalence.cases.families.growing import MANY_ROWS, Growth, fixed, grows
from equivalence.cases.families.moves.placed import PLACED, one_number_moves_nowhere
from equivalence.cases.families.shapes import NAMES, around, named_axis, place_is_its_own, shape
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op

FLATTENED: Factors = {
    **PLACED,
    "span": ("all", "first", "last", "inner", "one"),
    "name": (*NAMES, "mixed"),
}
"""Which axes become one, and how the ends are named: mixed, as the defaults are."""


def a_span_is_its_own(rank: int, span: str) -> bool:
    """Fewer than all axes need others."""
    return rank >= {"all": 1, "first": 3, "last": 3, "inner": 4, "one": 2}[span]


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels)
    end = len(own) - 1
    start, last = {
        "all": (0, end), "first": (0, end - 1), "last": (1, end), "inner": (1, end - 1),
        "one": (axis, axis),
    }[levels["span"]]  # fmt: skip
    back = {"positive": (0, 0), "negative": (1, 1), "mixed": (0, 1)}[levels["name"]]
    return (own,), {"start": start - back[0] * len(own), "end": last - back[1] * len(own)}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    ends = sorted(draw(st.integers(0, len(own) - 1)) for _ in range(2))
    start, end = (named_axis(draw, k, len(own)) for k in ends)
    return (own,), {"start": start, "end": end}


def _small(draw: Draw, op: Op) -> Signature:
    source = draw(SHAPES)
    rank = max(len(source), 1)
    start, end = sorted(draw(st.integers(0, rank - 1)) for _ in range(2))
    return (source,), {"start": start, "end": end - rank if draw(st.booleans()) else end}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], everything)
    return None if x is None else ((x,), {"end": -1 if picks[1] % 2 else 0})


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n, 16),), start=0), MANY_ROWS, 2_731),
    Growth("columns", fixed(lambda n: ((2, 4, n),), start=1), 2**16, 4_101),
)

FLATTENS = Family(
    name="flattenings",
    factors=varied(FLATTENED),
    rules=(place_is_its_own, a_span_is_its_own),
    call=_call,
    empty=always((((0, 3),), {}), (((),), {}), (((2, 0, 3),), {"start": 1, "end": 2})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    shows=(one_number_moves_nowhere,),
)
