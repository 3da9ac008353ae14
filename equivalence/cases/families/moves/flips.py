"""Ops that reverse the order along axes."""

from __future__ import annotations

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
    everything,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Growth, fixed, grows
from equivalence.cases.families.moves.placed import PLACED, one_number_moves_nowhere
from equivalence.cases.families.shapes import (
    NAMES,
    around,
    named_axis,
    place_is_its_own,
    shape,
)
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op

FLIPPED: Factors = {
    **PLACED,
    "turned": ("one", "others", "all", "ends", "none"),
    "name": (*NAMES, "mixed"),
}
"""The axes that are reversed, and how they are named."""


def _turned(rank: int, axis: int, turned: str) -> list[int]:
    others = [k for k in range(rank) if k != axis]
    every = list(range(rank))
    return {"one": [axis], "others": others, "all": every, "ends": [0, rank - 1], "none": []}[
        turned
    ]


def the_turned_axes_are_their_own(rank: int, place: str, extent: int, turned: str) -> bool:
    """All of one axis are that one, and what is reversed has two entries."""
    least = {"others": 2, "all": 2, "ends": 3}.get(turned, 1)
    if turned == "ends" and place != "middle":
        return False
    return rank >= least and (extent > 1 or turned != "one")


def names_need_axes(rank: int, turned: str, name: str) -> bool:
    """No axis has no name, and two names need two axes."""
    count = {"one": 1, "others": rank - 1, "all": rank, "ends": 2, "none": 0}[turned]
    return count > {"positive": -1, "negative": 0, "mixed": 1}[name]


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels)
    turned = _turned(len(own), axis, levels["turned"])
    backwards = {"positive": (), "negative": turned, "mixed": turned[::2]}[levels["name"]]
    return (own,), {"axes": tuple(k - len(own) if k in backwards else k for k in turned)}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    turned: set[int] = draw(st.sets(st.sampled_from(range(len(own)))))
    return (own,), {"axes": tuple(named_axis(draw, k, len(own)) for k in turned)}


def _small(draw: Draw, op: Op) -> Signature:
    source = draw(SHAPES)
    axes: set[int] = draw(st.sets(st.sampled_from(range(len(source))))) if source else set()
    return (source,), {"axes": draw(st.sampled_from([None, tuple(axes)]))}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], everything)
    if x is None:
        return None
    axes = [None, (), *((k,) for k in range(len(offer.shapes[x])))]
    return (x,), {"axes": axes[picks[1] % len(axes)]}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix()], {"axes": (1,)}


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n, 16),), axes=(0,)), MANY_ROWS, 2_731),
    Growth("columns", fixed(lambda n: ((8, n),), axes=(1,)), 2**17, 8_201),
    Growth("elements", fixed(lambda n: ((n,),), axes=None), 2**20, 24_601),
)

FLIPS = Family(
    name="flips",
    factors=varied(FLIPPED),
    rules=(place_is_its_own, the_turned_axes_are_their_own, names_need_axes),
    call=_call,
    empty=always((((0, 3),), {"axes": (0, 1)}), (((),), {}), (((1,),), {"axes": (0,)})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    sample=_sample,
    shows=(one_number_moves_nowhere,),
    keeps_shape=True,
)
