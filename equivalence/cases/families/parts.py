"""Ops that cut tensors apart along an axis, and that join them."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.family import (
    NAMES,
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Shape,
    Signature,
    always,
    around,
    named,
    named_axis,
    place_is_its_own,
    shape,
)
from equivalence.cases.families.moves import PLACED, one_number_moves_nowhere, varied
from spec.op import Op

CUT: Factors = {
    **PLACED,
    "start": ("first", "second", "middle", "last"),
    "length": ("rest", "one", "half", "rest but one"),
    "name": NAMES,
}

JOINED: Factors = {
    **PLACED,
    "inputs": (2, 1, 3, 4, 5, 6),
    "others": ("same", "one", "empty", "growing", "empty first"),
    "name": NAMES,
}
"""How many tensors are joined, and how far the others reach along the axis."""


def _interval(extent: int, start: str, length: str) -> tuple[int, int]:
    first = {"first": 0, "second": 1, "middle": extent // 2, "last": extent - 1}[start]
    rest = extent - first
    return first, {"rest": rest, "one": 1, "half": rest // 2, "rest but one": rest - 1}[length]


def an_interval_is_its_own(extent: int, start: str, length: str) -> bool:
    """A short axis has few intervals, and one without entries is judged apart."""
    found = _interval(extent, start, length)
    before = {
        _interval(extent, other, another)
        for k, other in enumerate(CUT["start"][: CUT["start"].index(start) + 1])
        for another in CUT["length"][: CUT["length"].index(length) + 1]
        if (other, another) != (start, length)
    }
    return 0 <= found[0] < extent and found[1] > 0 and found not in before


def _slice_call(op: Op, direction: str, levels: Levels) -> Signature:
    """Cut an interval; a value is counted by the entries that stay."""
    own, axis = around(levels, 2100, ENOUGH)
    start, length = _interval(levels["extent"], levels["start"], levels["length"])
    name = named(axis, len(own), levels["name"])
    return (own,), {"axis": name, "start": start, "length": length}


def one_tensor_has_no_others(inputs: int, others: str) -> bool:
    """What others are like needs one."""
    return inputs > 1 or others == "same"


def several_long_ones_cost_too_much(inputs: int, extent: int, others: str) -> bool:
    """Many long tensors in one call hold what two do."""
    return inputs * extent < 2100 or others in ("one", "empty", "empty first")


def _concat_call(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels)
    extent, kind = levels["extent"], levels["others"]
    others = [
        {"same": extent, "growing": k + 2}.get(kind, 0 if kind != "one" and k % 2 == 0 else 1)
        for k in range(levels["inputs"] - 1)
    ]
    along = [*others, extent] if kind == "empty first" else [extent, *others]
    shapes = tuple((*own[:axis], n, *own[axis + 1 :]) for n in along)
    return shapes, {"axis": named(axis, len(own), levels["name"])}


def _draw_slice(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    axis: int = draw(st.integers(0, len(own) - 1))
    rest = math.prod(own) // own[axis]
    least = 0 if direction == "vjp" else -(-ENOUGH // rest)
    start: int = draw(st.integers(0, own[axis] - least))
    length: int = draw(st.integers(least, own[axis] - start))
    return (own,), {"axis": named_axis(draw, axis, len(own)), "start": start, "length": length}


def _slice(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    if x is None:
        return None
    extent = offer.shapes[x][-1]
    start = picks[1] % (extent + 1)
    return (x,), {"axis": -1, "start": start, "length": picks[2] % (extent - start + 1)}


def _draw_concat(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw an input that counts, and up to five others, which may be empty along the axis."""
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    others = draw(st.lists(st.sampled_from((own[axis], 1, 0, 2, 3)), max_size=5))
    shapes = [(*own[:axis], n, *own[axis + 1 :]) for n in (own[axis], *others)]
    mixed: list[Shape] = draw(st.permutations(shapes))
    return tuple(mixed), {"axis": named_axis(draw, axis, len(own))}


def _concat(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    if x is None:
        return None
    rest = offer.shapes[x][1:]
    y = offer.entry(picks[1], lambda shape: bool(shape) and shape[1:] == rest)
    return ((x, y, x) if picks[2] % 4 == 0 else (x, y)), {"axis": 0}


SLICES = Family(
    "slices",
    varied(CUT),
    (place_is_its_own, an_interval_is_its_own),
    _slice_call,
    always(
        (((4, 3),), {"axis": 0, "start": 4, "length": 0}),
        (((0, 3),), {"axis": 0, "start": 0, "length": 0}),
        (((4, 0),), {"axis": 0, "start": 1, "length": 2}),
        (((1,),), {"axis": 0, "start": 0, "length": 1}),
    ),
    _draw_slice,
    _slice,
    (one_number_moves_nowhere,),
)
CONCATS = Family(
    "concatenations",
    varied(JOINED),
    (place_is_its_own, one_tensor_has_no_others, several_long_ones_cost_too_much),
    _concat_call,
    always(
        (((0,),), {"axis": 0}),
        (((0, 3), (0, 3)), {"axis": 0}),
        (((2, 0), (3, 0)), {"axis": 0}),
        (((0,), (1,)), {"axis": 0}),
    ),
    _draw_concat,
    _concat,
    (one_number_moves_nowhere,),
)
