"""Ops that act on the last axis, with parameters of one entry a column.

Other inputs may have the shape of the first, such as a residual that is added to it. Where the type
rule lets the parameters span more of the last axes, these are a row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import WITH_AXES
from equivalence.cases.families.family import (
    FACTOR,
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
)
from equivalence.cases.families.growing import MANY_ROWS, Bearing, Growth, at_most
from equivalence.cases.families.rows.along import (
    MOST_ALONG,
    a_row_has_two_entries,
    entries_of_a_row_differ,
)
from equivalence.cases.families.shapes import (
    BESIDE,
    RANKS,
    around,
    many_lie_beside_short_ones,
    shape,
)
from equivalence.cases.families.signatures import (
    Draw,
    Shape,
    Signature,
    chosen,
    required,
    results,
    said,
)
from spec.op import Op

NORMED: Factors = {
    "rank": RANKS,
    "extent": (33, 1, 2, 8, 31, 64, 65, 128, 257, 513, 1025),
    "rows": BESIDE,
}


SPANS = (1, 2, 3)
"""How many of the last axes the parameters have."""


def parameters_span_axes_that_there_are(span: int, rank: int) -> bool:
    """No more of the last axes make a row than there are."""
    return span <= rank


def _factors(op: Op) -> Factors:
    return {**NORMED, **({"span": SPANS} if _spans(op) else {}), **op.tried}


@cache
def _spans(op: Op) -> bool:
    """Say whether parameters may have several of the last axes; the type rule tells."""
    return results(op, (with_parameters(op, (2, 3, 5), 2), required(op))) is not None


@cache
def _alike(op: Op) -> tuple[bool, ...]:
    """Say of each input behind the first whether it has its shape; the type rule tells.

    At least one has an entry a column: what takes inputs of one shape alone is another family's.
    """
    others = len(op.inputs) - 1
    for alike in product((False, True), repeat=others):
        shapes = ((3, 5), *((3, 5) if same else (5,) for same in alike))
        if not (others and all(alike)) and results(op, (shapes, required(op))) is not None:
            return alike
    return (False,) * others


def with_parameters(op: Op, own: Shape, span: int = 1) -> tuple[Shape, ...]:
    """Return the shapes of x and of what comes with it."""
    """Return the shapes of x and of what comes with it, whose parameters span some last axes."""
    return (own, *(own if same else own[-span:] for same in _alike(op)))


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, _ = around(levels, MOST_ALONG[direction])
    return with_parameters(op, own, levels.get("span", 1)), said(op, levels)


def _empty(op: Op) -> tuple[Signature, ...]:
    return tuple((with_parameters(op, nothing), required(op)) for nothing in ((0, 3), (2, 0)))


def _span(draw: Draw, op: Op, own: Shape) -> int:
    return draw(st.integers(1, len(own))) if _spans(op) else 1


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 160, max_rank=3)
    return with_parameters(op, own, _span(draw, op, own)), chosen(draw, op)


def _small(draw: Draw, op: Op) -> Signature:
    own = draw(WITH_AXES)
    return with_parameters(op, own, _span(draw, op, own)), chosen(draw, op)


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Let eps be so large that a constant row sends no large gradient back."""
    x = offer.entry(picks[0], bool, FACTOR)
    if x is None:
        return None
    own = offer.shapes[x]
    others = [
        offer.entry(picks[1 + k % (len(picks) - 1)], (own if same else own[-1:]).__eq__, FACTOR)
        for k, same in enumerate(_alike(op))
    ]
    return None if None in others else ((x, *others), {"eps": 1.0})


def _sample(sampler: Sampler, op: Op) -> Sample:
    others = (sampler.matrix() if same else sampler.normal(sampler.columns) for same in _alike(op))
    return [sampler.matrix(), *others], required(op)


def _in_columns(shape: Callable[[int], Shape], span: int = 1) -> Callable[[Op, int], Signature]:
    return lambda op, n: (with_parameters(op, shape(n), span), required(op))


OF_ONE_AXIS = (
    Growth("columns", _in_columns(lambda n: (8, n)), 2**17, 8_201),
    Growth("rows", _in_columns(lambda n: (n, 9)), MANY_ROWS, 2_731),
    Growth("columns", _in_columns(lambda n: (259, n)), 515, 515),
    Growth("columns", _in_columns(lambda n: (33, n)), 2**10, 2**10, ("offset",)),
)

OF_TWO_AXES = (Growth("columns", _in_columns(lambda n: (8, 3, n), 2), 2**15, 2_731),)


def _growths(op: Op) -> tuple[Growth, ...]:
    return (*OF_ONE_AXIS, *OF_TWO_AXES) if _spans(op) else OF_ONE_AXIS


NORMS = Family(
    name="norms",
    factors=_factors,
    rules=(many_lie_beside_short_ones, parameters_span_axes_that_there_are),
    call=_call,
    empty=_empty,
    draw=_draw,
    small=_small,
    growths=_growths,
    bearing=Bearing(shared=True, most=at_most(3)),
    operands=_operands,
    sample=_sample,
    shows=(a_row_has_two_entries, entries_of_a_row_differ),
)
