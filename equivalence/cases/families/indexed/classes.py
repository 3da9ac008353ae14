"""Ops that write positions down, one class each."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import SHAPES
from equivalence.cases.families.family import (
    Call,
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Growth, fixed, grown, grows
from equivalence.cases.families.indexed.reading import MOST_READ, TAKEN
from equivalence.cases.families.shapes import extent, shape
from equivalence.cases.families.signatures import Draw, Shape, Signature, always
from spec.op import Op

WRITTEN: Factors = {
    "classes": (10, 1, 2, 8, 9, 33, 65, 257),
    "indices": TAKEN["indices"],
}


def few_are_written(classes: int, indices: Shape) -> bool:
    """Many classes are written for few indices."""
    return math.prod(indices) * classes <= MOST_READ


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    return (levels["indices"],), {"classes": levels["classes"]}


def classes_differ(call: Call) -> bool:
    """One class is always there."""
    return bool(call.attributes["classes"] > 1)


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    return (shape(draw, ENOUGH, 40, max_rank=3),), {"classes": extent(draw, 33)}


def _small(draw: Draw, op: Op) -> Signature:
    return (draw(SHAPES),), {"classes": draw(st.integers(1, 3))}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    classes = picks[0] % 4 + 1
    return (offer.indices(picks[1], classes),), {"classes": classes}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.below(sampler.columns, sampler.rows)], {"classes": sampler.columns}


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n,),), classes=9), MANY_ROWS, 2_731),
    Growth("columns", grown(lambda n: ((8,),), lambda n: {"classes": n}), 2**17, 8_201),
)

CLASSES = Family(
    name="classes",
    factors=varied(WRITTEN),
    rules=(few_are_written,),
    call=_call,
    empty=always((((0,),), {"classes": 3}), (((0, 2),), {"classes": 2}), (((),), {"classes": 1})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    sample=_sample,
    shows=(classes_differ,),
)
