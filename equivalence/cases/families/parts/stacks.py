"""Ops that join tensors along a new axis."""

from __future__ import annotations

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import SHAPES, an_axis
from equivalence.cases.families.family import (
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Growth, fixed, grows
from equivalence.cases.families.moves.placed import PLACED, one_number_moves_nowhere
from equivalence.cases.families.shapes import (
    NAMES,
    around,
    named,
    named_axis,
    place_is_its_own,
    shape,
)
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op

STACKED: Factors = {
    **PLACED,
    "inputs": (2, 1, 3, 4, 5, 6),
    "joined": ("front", "back", "inside"),
    "name": NAMES,
}
"""How many tensors are joined, and where their new axis is."""


def a_new_axis_is_its_own(rank: int, joined: str) -> bool:
    """Inside is between two axes."""
    return rank > 1 or joined != "inside"


def many_long_ones_cost_too_much(inputs: int, extent: int) -> bool:
    """Many long tensors in one call hold what two do."""
    return inputs * extent < 2100


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, _ = around(levels)
    at = {"front": 0, "back": len(own), "inside": 1}[levels["joined"]]
    return (own,) * levels["inputs"], {"axis": named(at, len(own) + 1, levels["name"])}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 128, max_rank=3)
    count: int = draw(st.integers(1, 6))
    axis: int = draw(st.integers(0, len(own)))
    return (own,) * count, {"axis": named_axis(draw, axis, len(own) + 1)}


def _small(draw: Draw, op: Op) -> Signature:
    source = draw(SHAPES)
    return (source,) * draw(st.integers(1, 3)), {"axis": an_axis(draw, len(source) + 1)}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: len(shape) < 3)
    if x is None:
        return None
    y = offer.entry(picks[1], lambda shape: shape == offer.shapes[x])
    return ((x, y, x) if picks[2] % 4 == 0 else (x, y)), {"axis": -1 if picks[2] % 2 else 0}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix(), sampler.matrix()], {"axis": 0}


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n, 8),) * 3, axis=1), MANY_ROWS, 2_731),
    Growth("columns", fixed(lambda n: ((4, n),) * 2, axis=2), 2**16, 4_101),
)

STACKS = Family(
    name="stacks",
    factors=varied(STACKED),
    rules=(place_is_its_own, a_new_axis_is_its_own, many_long_ones_cost_too_much),
    call=_call,
    empty=always((((0,), (0,)), {"axis": 1}), (((), ()), {"axis": 0}), (((2, 0),), {"axis": -1})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    sample=_sample,
    shows=(one_number_moves_nowhere,),
)
