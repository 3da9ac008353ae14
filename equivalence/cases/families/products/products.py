"""Products of two matrices."""

from __future__ import annotations

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import FEW_EXTENTS
from equivalence.cases.families.family import (
    FACTOR,
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    is_matrix,
    varied,
)
from equivalence.cases.families.growing import (
    MANY_ROWS,
    SPREAD,
    WHOLE,
    Bearing,
    Growth,
    fixed,
    grows,
)
from equivalence.cases.families.shapes import extent, shape
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op

PAIRED: Factors = {
    "rows": (5, 1, 3, 8, 15, 16, 17, 33, 65),
    "inner": (7, 1, 2, 8, 16, 33, 65, 257, 513),
    "columns": (9, 1, 2, 8, 15, 16, 17, 33, 65),
}
"""Extents of one in every place, squares, and the neighbours of tiles."""

MOST = 1200
"""So many products, at most, make a result, since the oracle adds each up alone."""


THIN, BOTH, NEARLY = 19, 515, 259
"""A contracted extent with a tail, and extents of which two make a result: beyond tiles of 256."""


def so_many_products_cost_too_much(rows: int, inner: int, columns: int) -> bool:
    """Tall, deep and wide at once is a matter of real sizes."""
    return rows * inner * columns <= MOST


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    rows, inner, columns = levels["rows"], levels["inner"], levels["columns"]
    return ((rows, inner), (inner, columns)), {}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    rows, columns = shape(draw, ENOUGH, 200, min_rank=2, max_rank=2)
    inner = extent(draw, max(4000 // (rows * columns), 1))
    return ((rows, inner), (inner, columns)), {}


def _small(draw: Draw, op: Op) -> Signature:
    rows, inner, columns = (draw(FEW_EXTENTS) for _ in range(3))
    return ((rows, inner), (inner, columns)), {}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], is_matrix, FACTOR)
    if x is None:
        return None
    inner = offer.shapes[x][1]
    y = offer.entry(picks[1], lambda shape: len(shape) == 2 and shape[0] == inner, FACTOR)
    return None if y is None else ((x, y), {})


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix(), sampler.normal(sampler.columns, sampler.rows)], {}


GROWTHS = (
    Growth("inner", fixed(lambda n: ((64, n), (n, 65))), 2**13, 1_025, WHOLE),
    Growth("inner", fixed(lambda n: ((33, n), (n, 35))), 513, 513, SPREAD),
    Growth("rows", fixed(lambda n: ((n, 15), (15, 3))), MANY_ROWS, 2_731, WHOLE),
    Growth("outer", fixed(lambda n: ((17, 33), (33, n))), MANY_ROWS, 1_025, SPREAD),
    Growth("both", fixed(lambda n: ((n, THIN), (THIN, n + 2))), BOTH, NEARLY, WHOLE),
    Growth("both", fixed(lambda n: ((n, n + 2), (n + 2, THIN))), BOTH, NEARLY, WHOLE),
    Growth("both", fixed(lambda n: ((THIN, n), (n, n + 2))), BOTH, NEARLY, WHOLE),
)
"""The last three have both axes of a result, the value or a gradient, beyond every likely tile."""


def one_factor_is_a_sign(op: Op, k: int, exponent: int) -> int | None:
    """Let the first factor be as wide as the format, and the others -1, 0 or 1.

    Where some of the factors are integers, these are as wide as their range, and all others narrow.
    """
    return None if k == 0 and not op.integer_inputs else 1


PRODUCTS = Family(
    name="products",
    factors=varied(PAIRED),
    rules=(so_many_products_cost_too_much,),
    call=_call,
    empty=always((((2, 0), (0, 3)), {}), (((0, 2), (2, 3)), {})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(shared=True, added=True, most=one_factor_is_a_sign),
    operands=_operands,
    sample=_sample,
)
