"""Products: of two matrices, and of rows with a matrix and a bias."""

from __future__ import annotations

import math

from equivalence.cases.call import ENOUGH
from equivalence.cases.families.family import (
    FACTOR,
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Signature,
    always,
    calls,
    extent,
    is_matrix,
    shape,
    signature_of,
)
from spec.op import Op

PAIRS: tuple[Signature, ...] = (
    (((5, 7), (7, 9)), {}),
    (((17, 16), (16, 15)), {}),
    (((3, 257), (257, 4)), {}),
    (((1, 33), (33, 9)), {}),
    (((31, 8), (8, 5)), {}),
    (((16, 32), (32, 16)), {}),
    (((9, 1), (1, 8)), {}),
    (((33, 40), (40, 33)), {}),
    (((2, 300), (300, 3)), {}),
    (((8, 65), (65, 2)), {}),
    (((15, 17), (17, 33)), {}),
    (((65, 3), (3, 8)), {}),
)

LAYERS: tuple[Signature, ...] = (
    (((5, 7), (9, 7), (9,)), {}),
    (((17, 16), (15, 16), (15,)), {}),
    (((3, 257), (4, 257), (4,)), {}),
    (((2, 3, 5), (7, 5), (7,)), {}),
    (((33,), (9, 33), (9,)), {}),
    (((16, 32), (16, 32), (16,)), {}),
    (((9, 1), (8, 1), (8,)), {}),
    (((33, 20), (17, 20), (17,)), {}),
    (((8, 65), (1, 65), (1,)), {}),
    (((1, 1, 2, 4), (33, 4), (33,)), {}),
    (((257, 2), (3, 2), (3,)), {}),
    (((31, 8), (5, 8), (5,)), {}),
)


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
    calls(*PAIRS),
    signature_of,
    always((((2, 0), (0, 3)), {}), (((0, 2), (2, 3)), {})),
    _draw_pair,
    _pair,
)
LINEAR = Family(
    "linear layers",
    calls(*LAYERS),
    signature_of,
    always((((0, 2), (3, 2), (3,)), {}), (((2, 0), (3, 0), (3,)), {})),
    _draw_layer,
    _layer,
)
