"""Ops that read rows of a table."""

from __future__ import annotations

import math

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import FEW_EXTENTS, leading
from equivalence.cases.families.family import (
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    is_matrix,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Bearing, Growth, fixed, grows
from equivalence.cases.families.indexed.reading import MOST_READ, TAKEN
from equivalence.cases.families.shapes import extent, shape
from equivalence.cases.families.signatures import Draw, Shape, Signature, always
from spec.op import Op

LOOKED_UP: Factors = {
    "rows": (33, 1, 2, 8, 9, 65, 257),
    "columns": (33, 1, 2, 8, 9, 64, 65, 257),
    "indices": TAKEN["indices"],
}


def few_are_looked_up(rows: int, columns: int, indices: Shape) -> bool:
    """Long rows are few, in the table and in the result."""
    return max(rows, math.prod(indices)) * columns <= MOST_READ


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    return (levels["indices"], (levels["rows"], levels["columns"])), {}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    rows = extent(draw, 9)
    columns = extent(draw, 17, -(-ENOUGH // rows))
    return (shape(draw, -(-ENOUGH // columns), 12, max_rank=2), (rows, columns)), {}


def _small(draw: Draw, op: Op) -> Signature:
    rows, columns = draw(FEW_EXTENTS), draw(FEW_EXTENTS)
    picked = leading(draw, 2)
    return (picked if rows else (0,), (rows, columns)), {}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    weight = offer.entry(picks[0], lambda shape: is_matrix(shape) and shape[0] > 0)
    if weight is None:
        return None
    return (offer.indices(picks[1], offer.shapes[weight][0]), weight), {}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.below(sampler.rows, 6), sampler.matrix()], {}


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n // 16,), (n, 16))), MANY_ROWS, 2_731),
    Growth("columns", fixed(lambda n: ((7,), (8, n))), 2**17, 4_101),
    Growth("indices", fixed(lambda n: ((n,), (513, 16))), 2**13 + 1, 1_025),
)

LOOKUPS = Family(
    name="lookups",
    factors=varied(LOOKED_UP),
    rules=(few_are_looked_up,),
    call=_call,
    empty=always((((0,), (4, 3)), {}), (((2,), (4, 0)), {}), (((0, 2), (0, 3)), {})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(added=True),
    operands=_operands,
    sample=_sample,
)
