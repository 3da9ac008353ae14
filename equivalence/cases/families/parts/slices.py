"""Ops that cut an interval out of an axis."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import WITH_AXES, an_axis
from equivalence.cases.families.family import (
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Growth, grown, grows
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

CUT: Factors = {
    **PLACED,
    "start": ("first", "second", "middle", "last"),
    "length": ("rest", "one", "half", "rest but one"),
    "name": NAMES,
}


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


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    """Cut an interval; a value is counted by the entries that stay."""
    own, axis = around(levels, 2100, ENOUGH)
    start, length = _interval(levels["extent"], levels["start"], levels["length"])
    name = named(axis, len(own), levels["name"])
    return (own,), {"axis": name, "start": start, "length": length}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    axis: int = draw(st.integers(0, len(own) - 1))
    rest = math.prod(own) // own[axis]
    least = 0 if direction == "vjp" else -(-ENOUGH // rest)
    start: int = draw(st.integers(0, own[axis] - least))
    length: int = draw(st.integers(least, own[axis] - start))
    return (own,), {"axis": named_axis(draw, axis, len(own)), "start": start, "length": length}


def _small(draw: Draw, op: Op) -> Signature:
    source = draw(WITH_AXES)
    axis = an_axis(draw, len(source))
    start: int = draw(st.integers(0, source[axis]))
    length: int = draw(st.integers(0, source[axis] - start))
    return (source,), {"axis": axis, "start": start, "length": length}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    if x is None:
        return None
    extent = offer.shapes[x][-1]
    start = picks[1] % (extent + 1)
    return (x,), {"axis": -1, "start": start, "length": picks[2] % (extent - start + 1)}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix()], {"axis": 1, "start": 0, "length": sampler.columns}


GROWTHS = (
    Growth(
        "rows",
        grown(lambda n: ((n, 16),), lambda n: {"axis": 0, "start": 1, "length": n - 2}),
        MANY_ROWS,
        2_731,
    ),
    Growth(
        "columns",
        grown(lambda n: ((8, n),), lambda n: {"axis": 1, "start": 3, "length": n - 5}),
        2**17,
        8_201,
    ),
)

SLICES = Family(
    name="slices",
    factors=varied(CUT),
    rules=(place_is_its_own, an_interval_is_its_own),
    call=_call,
    empty=always(
        (((4, 3),), {"axis": 0, "start": 4, "length": 0}),
        (((0, 3),), {"axis": 0, "start": 0, "length": 0}),
        (((4, 0),), {"axis": 0, "start": 1, "length": 2}),
        (((1,),), {"axis": 0, "start": 0, "length": 1}),
    ),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    sample=_sample,
    shows=(one_number_moves_nowhere,),
)
