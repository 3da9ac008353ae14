"""Ops that read entries along an axis, at positions that all the other axes share."""

from __future__ import annotations

from equivalence.cases.families.family import (
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Bearing, Growth, fixed, grows
from equivalence.cases.families.indexed.reading import (
    TAKEN,
    draw_take,
    has_a_row,
    small_take,
    taken,
)
from equivalence.cases.families.shapes import place_is_its_own
from equivalence.cases.families.signatures import always
from spec.op import Op


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], has_a_row)
    if x is None:
        return None
    return (x, offer.indices(picks[1], offer.shapes[x][0])), {"axis": 0}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix(), sampler.below(sampler.rows, 6)], {"axis": 0}


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n, 16), (n // 16,)), axis=0), MANY_ROWS, 2_731),
    Growth("columns", fixed(lambda n: ((8, n), (n // 16,)), axis=1), 2**17, 4_101),
    Growth("indices", fixed(lambda n: ((513, 16), (n,)), axis=0), 2**13 + 1, 1_025),
)

TAKES = Family(
    name="gathers",
    factors=varied(TAKEN),
    rules=(place_is_its_own,),
    call=taken,
    empty=always((((4, 3), (0,)), {"axis": 0}), (((4, 0), (2,)), {"axis": 0})),
    draw=draw_take,
    small=small_take,
    growths=grows(*GROWTHS),
    bearing=Bearing(added=True),
    operands=_operands,
    sample=_sample,
)
