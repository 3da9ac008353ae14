"""Ops that join tensors along an axis that they have."""

from __future__ import annotations

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
from equivalence.cases.families.signatures import Draw, Shape, Signature, always
from spec.op import Op

JOINED: Factors = {
    **PLACED,
    "inputs": (2, 1, 3, 4, 5, 6),
    "others": ("same", "one", "empty", "growing", "empty first"),
    "name": NAMES,
}
"""How many tensors are joined, and how far the others reach along the axis."""


def one_tensor_has_no_others(inputs: int, others: str) -> bool:
    """What others are like needs one."""
    return inputs > 1 or others == "same"


def several_long_ones_cost_too_much(inputs: int, extent: int, others: str) -> bool:
    """Many long tensors in one call hold what two do."""
    return inputs * extent < 2100 or others in ("one", "empty", "empty first")


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels)
    extent, kind = levels["extent"], levels["others"]
    others = [
        {"same": extent, "growing": k + 2}.get(kind, 0 if kind != "one" and k % 2 == 0 else 1)
        for k in range(levels["inputs"] - 1)
    ]
    along = [*others, extent] if kind == "empty first" else [extent, *others]
    shapes = tuple((*own[:axis], n, *own[axis + 1 :]) for n in along)
    return shapes, {"axis": named(axis, len(own), levels["name"])}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw an input that counts, and up to five others, which may be empty along the axis."""
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    others = draw(st.lists(st.sampled_from((own[axis], 1, 0, 2, 3)), max_size=5))
    shapes = [(*own[:axis], n, *own[axis + 1 :]) for n in (own[axis], *others)]
    mixed: list[Shape] = draw(st.permutations(shapes))
    return tuple(mixed), {"axis": named_axis(draw, axis, len(own))}


def _small(draw: Draw, op: Op) -> Signature:
    first = draw(WITH_AXES)
    axis = an_axis(draw, len(first))
    at = axis % len(first)
    others: list[int] = draw(st.lists(FEW_EXTENTS, max_size=2))
    return (first, *((*first[:at], n, *first[at + 1 :]) for n in others)), {"axis": axis}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    if x is None:
        return None
    rest = offer.shapes[x][1:]
    y = offer.entry(picks[1], lambda shape: bool(shape) and shape[1:] == rest)
    return ((x, y, x) if picks[2] % 4 == 0 else (x, y)), {"axis": 0}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix(), sampler.matrix()], {"axis": 1}


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n, 8), (3, 8), (n + 7, 8)), axis=0), MANY_ROWS, 2_731),
    Growth("columns", fixed(lambda n: ((8, n + 1), (8, n - 1)), axis=1), 2**16, 4_101),
)

CONCATS = Family(
    name="concatenations",
    factors=varied(JOINED),
    rules=(place_is_its_own, one_tensor_has_no_others, several_long_ones_cost_too_much),
    call=_call,
    empty=always(
        (((0,),), {"axis": 0}),
        (((0, 3), (0, 3)), {"axis": 0}),
        (((2, 0), (3, 0)), {"axis": 0}),
        (((0,), (1,)), {"axis": 0}),
    ),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    sample=_sample,
    shows=(one_number_moves_nowhere,),
)
