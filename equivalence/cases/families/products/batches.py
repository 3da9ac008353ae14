"""Products of matrices, a pair at each place of a batch."""

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
from equivalence.cases.families.products.products import (
    BOTH,
    MOST,
    NEARLY,
    PAIRED,
    THIN,
    one_factor_is_a_sign,
)
from equivalence.cases.families.shapes import extent, shape
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op

BATCHED: Factors = {
    "batch": (2, 1, 3, 7, 17, 33),
    **PAIRED,
}
"""How many pairs of matrices there are, and the extents of one."""


def so_many_products_cost_too_much(batch: int, rows: int, inner: int, columns: int) -> bool:
    """Many products that are tall, deep and wide at once are a matter of real sizes."""
    return batch * rows * inner * columns <= MOST


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    batch, rows = levels["batch"], levels["rows"]
    inner, columns = levels["inner"], levels["columns"]
    return ((batch, rows, inner), (batch, inner, columns)), {}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    batch, rows, columns = shape(draw, ENOUGH, 200, min_rank=3, max_rank=3)
    inner = extent(draw, max(4000 // (batch * rows * columns), 1))
    return ((batch, rows, inner), (batch, inner, columns)), {}


def _small(draw: Draw, op: Op) -> Signature:
    batch, rows, inner, columns = (draw(FEW_EXTENTS) for _ in range(4))
    return ((batch, rows, inner), (batch, inner, columns)), {}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: len(shape) == 3, FACTOR)
    if x is None:
        return None
    batch, _, inner = offer.shapes[x]
    y = offer.entry(picks[1], lambda shape: len(shape) == 3 and shape[:2] == (batch, inner), FACTOR)
    return None if y is None else ((x, y), {})


def _sample(sampler: Sampler, op: Op) -> Sample:
    rows, columns = sampler.rows, sampler.columns
    return [sampler.normal(3, rows, columns), sampler.normal(3, columns, rows)], {}


GROWTHS = (
    Growth("inner", fixed(lambda n: ((2, 64, n), (2, n, 65))), 2**12, 1_025, WHOLE),
    Growth("inner", fixed(lambda n: ((2, 33, n), (2, n, 35))), 513, 513, SPREAD),
    Growth("rows", fixed(lambda n: ((2, n, 15), (2, 15, 3))), MANY_ROWS, 1_367, WHOLE),
    Growth("both", fixed(lambda n: ((2, n, THIN), (2, THIN, n + 2))), BOTH, NEARLY, WHOLE),
    Growth("both", fixed(lambda n: ((2, n, n + 2), (2, n + 2, THIN))), BOTH, NEARLY, WHOLE),
    Growth("both", fixed(lambda n: ((2, THIN, n), (2, n, n + 2))), BOTH, NEARLY, WHOLE),
    Growth("batch", fixed(lambda n: ((n, 3, 2), (n, 2, 4))), MANY_ROWS, 2_731, WHOLE),
    Growth("batch", fixed(lambda n: ((n, 17, 9), (n, 9, 3))), 1_031, 259, SPREAD),
)
"""The ways in which one product grows, at two places, and a batch beyond the places of a grid."""

BATCHES = Family(
    name="batches of products",
    factors=varied(BATCHED),
    rules=(so_many_products_cost_too_much,),
    call=_call,
    empty=always(
        (((2, 2, 0), (2, 0, 3)), {}),
        (((2, 0, 2), (2, 2, 3)), {}),
        (((0, 2, 2), (0, 2, 3)), {}),
    ),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(shared=True, added=True, most=one_factor_is_a_sign),
    operands=_operands,
    sample=_sample,
)
