"""Products: of two matrices, and of rows with a matrix and a bias."""

from __future__ import annotations

import math

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.family import (
    FACTOR,
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Signature,
    always,
    extent,
    is_matrix,
    shape,
)
from spec.op import Op

PAIRED: Factors = {
    "rows": (5, 1, 3, 8, 15, 16, 17, 33, 65),
    "inner": (7, 1, 2, 8, 16, 33, 65, 257, 513),
    "columns": (9, 1, 2, 8, 15, 16, 17, 33, 65),
}
"""Extents of one in every place, squares, and the neighbours of tiles."""

LAYERED: Factors = {
    "leading": (0, None, 1, 2),
    **PAIRED,
}
"""How many axes come before those of a matrix; None is a single row."""

MOST = 1200
"""So many products, at most, make a result, since the oracle adds each up alone."""


def _pairs(op: Op) -> Factors:
    return PAIRED


def _layers(op: Op) -> Factors:
    return LAYERED


def so_many_products_cost_too_much(rows: int, inner: int, columns: int) -> bool:
    """Tall, deep and wide at once is a matter of real sizes."""
    return rows * inner * columns <= MOST


def a_single_row_is_one(leading: int | None, rows: int) -> bool:
    """A vector is a single row."""
    return leading is not None or rows == 1


def _product(op: Op, direction: str, levels: Levels) -> Signature:
    rows, inner, columns = levels["rows"], levels["inner"], levels["columns"]
    return ((rows, inner), (inner, columns)), {}


def _through(op: Op, direction: str, levels: Levels) -> Signature:
    """Return a layer on rows, which the leading axes share out where they can."""
    rows, inner, columns = levels["rows"], levels["inner"], levels["columns"]
    leading = levels["leading"]
    first = next((d for d in range(2, rows + 1) if rows % d == 0), 1)
    lead = {None: (), 0: (rows,), 1: (first, rows // first), 2: (first, 1, rows // first)}[leading]
    return ((*lead, inner), (columns, inner), (columns,)), {}


def _draw_pair(draw: Draw, op: Op, direction: str) -> Signature:
    rows, columns = shape(draw, ENOUGH, 200, min_rank=2, max_rank=2)
    inner = extent(draw, max(4000 // (rows * columns), 1))
    return ((rows, inner), (inner, columns)), {}


def _pair(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], is_matrix, FACTOR)
    if x is None:
        return None
    inner = offer.shapes[x][1]
    y = offer.entry(picks[1], lambda shape: len(shape) == 2 and shape[0] == inner, FACTOR)
    return None if y is None else ((x, y), {})


def _draw_layer(draw: Draw, op: Op, direction: str) -> Signature:
    lead = shape(draw, 1, 9, max_rank=2)
    out = extent(draw, 33, -(-ENOUGH // math.prod(lead)))
    inner = extent(draw, max(3000 // (out * math.prod(lead)), 1))
    return ((*lead, inner), (out, inner), (out,)), {}


def _layer(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    w = offer.entry(picks[0], is_matrix, FACTOR)
    if w is None:
        return None
    rows, inner = offer.shapes[w]
    x = offer.entry(picks[1], lambda shape: shape[-1:] == (inner,), FACTOR)
    b = offer.entry(picks[2], lambda shape: shape == (rows,), FACTOR)
    return None if x is None or b is None else ((x, w, b), {})


PRODUCTS = Family(
    "products",
    _pairs,
    (so_many_products_cost_too_much,),
    _product,
    always((((2, 0), (0, 3)), {}), (((0, 2), (2, 3)), {})),
    _draw_pair,
    _pair,
)
LINEAR = Family(
    "linear layers",
    _layers,
    (so_many_products_cost_too_much, a_single_row_is_one),
    _through,
    always((((0, 2), (3, 2), (3,)), {}), (((2, 0), (3, 0), (3,)), {})),
    _draw_layer,
    _layer,
)
