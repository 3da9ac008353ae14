"""Products of rows with a matrix, and a bias; and curves of them, which attributes name."""

from __future__ import annotations

import math

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import usual
from equivalence.cases.families.exactly import FEW_EXTENTS, leading
from equivalence.cases.families.family import (
    FACTOR,
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    is_matrix,
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
    NEARLY,
    PAIRED,
    THIN,
    one_factor_is_a_sign,
    so_many_products_cost_too_much,
)
from equivalence.cases.families.shapes import extent, shape
from equivalence.cases.families.signatures import (
    Draw,
    Shape,
    Signature,
    chosen,
    required,
    said,
)
from spec.op import Op

LAYERED: Factors = {
    "leading": (0, None, 1, 2),
    **PAIRED,
}
"""How many axes come before those of a matrix; None is a single row."""


def a_single_row_is_one(leading: int | None, rows: int) -> bool:
    """A vector is a single row."""
    return leading is not None or rows == 1


def shared_out(leading: int | Shape | None, rows: int) -> Shape:
    """Return so many axes more than one, which share rows out where they can; None is no axis.

    Their extents may be said as well.
    """
    if isinstance(leading, tuple):
        return leading
    first = next((d for d in range(2, rows + 1) if rows % d == 0), 1)
    return {None: (), 0: (rows,), 1: (first, rows // first), 2: (first, 1, rows // first)}[leading]


def _factors(op: Op) -> Factors:
    return {**LAYERED, **op.tried}


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    inner, columns = levels["inner"], levels["columns"]
    lead = shared_out(levels["leading"], levels["rows"])
    return ((*lead, inner), (columns, inner), (columns,)), said(op, levels)


def _empty(op: Op) -> tuple[Signature, ...]:
    shapes = (((0, 2), (3, 2), (3,)), ((2, 0), (3, 0), (3,)))
    return tuple((each, required(op)) for each in shapes)


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    lead = shape(draw, 1, 9, max_rank=2)
    out = extent(draw, 33, -(-ENOUGH // math.prod(lead)))
    inner = extent(draw, max(3000 // (out * math.prod(lead)), 1))
    return ((*lead, inner), (out, inner), (out,)), chosen(draw, op)


def _small(draw: Draw, op: Op) -> Signature:
    inner, out = draw(FEW_EXTENTS), draw(FEW_EXTENTS)
    return ((*leading(draw, 2), inner), (out, inner), (out,)), chosen(draw, op)


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    w = offer.entry(picks[0], is_matrix, FACTOR)
    if w is None:
        return None
    rows, inner = offer.shapes[w]
    x = offer.entry(picks[1], lambda shape: shape[-1:] == (inner,), FACTOR)
    b = offer.entry(picks[2], lambda shape: shape == (rows,), FACTOR)
    return None if x is None or b is None else ((x, w, b), usual(op))


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix(), sampler.normal(5, sampler.columns), sampler.normal(5)], required(op)


GROWTHS = (
    Growth("inner", fixed(lambda n: ((64, n), (65, n), (65,))), 2**13, 1_025, WHOLE),
    Growth("inner", fixed(lambda n: ((33, n), (35, n), (35,))), 513, 513, SPREAD),
    Growth("rows", fixed(lambda n: ((n, 15), (3, 15), (3,))), MANY_ROWS, 2_731, WHOLE),
    Growth("both", fixed(lambda n: ((n, THIN), (n + 2, THIN), (n + 2,))), BOTH, NEARLY, WHOLE),
    Growth("both", fixed(lambda n: ((n, n + 2), (THIN, n + 2), (THIN,))), BOTH, NEARLY, WHOLE),
    Growth("both", fixed(lambda n: ((THIN, n), (n + 2, n), (n + 2,))), BOTH, NEARLY, WHOLE),
    Growth("batch", fixed(lambda n: ((n, n + 2, 5), (3, 5), (3,))), NEARLY, 131, WHOLE),
)
"""The last ones have two axes of a result, or a batch and its rows, beyond every likely tile."""

LINEAR = Family(
    name="linear layers",
    factors=_factors,
    rules=(so_many_products_cost_too_much, a_single_row_is_one),
    call=_call,
    empty=_empty,
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(shared=True, added=True, most=one_factor_is_a_sign),
    operands=_operands,
    sample=_sample,
)
