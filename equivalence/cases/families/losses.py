"""Losses: of predictions against targets, or of rows of classes against labels."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.families.elementwise import SHAPES
from equivalence.cases.families.family import (
    FACTOR,
    Draw,
    Factors,
    Family,
    Levels,
    Offer,
    Operands,
    Picks,
    Signature,
    always,
    extent,
    has_elements,
    shape,
)
from spec.op import Op

LABELLED: tuple[Signature, ...] = (
    (((9, 33), (9,)), {"reduction": "none"}),
    (((8, 10), (8,)), {"reduction": "none"}),
    (((33, 3), (33,)), {"ignore_index": 0}),
    (((9, 65), (9,)), {"reduction": "none"}),
    (((17, 5), (17,)), {"reduction": "none", "ignore_index": -1}),
    (((8, 1), (8,)), {"reduction": "none"}),
    (((8, 129), (8,)), {"ignore_index": -1}),
    (((31, 4), (31,)), {"reduction": "none"}),
    (((9, 10), (9,)), {}),
    (((16, 32), (16,)), {"reduction": "none"}),
    (((8, 7), (8,)), {"reduction": "sum"}),
    (((65, 9), (65,)), {"reduction": "none"}),
    (((8, 257), (8,)), {"reduction": "none"}),
    (((33, 9), (33,)), {}),
)

MOST_SMOOTHED = 10
"""Smoothing scores every class as a label, so the reference's cost grows with the square."""


def _labelled(op: Op) -> Factors:
    return {"call": LABELLED, "label_smoothing": (0.1, 1.0, 0.25)}


def _score(op: Op, levels: Levels) -> Signature:
    """Give the losses over few classes some label smoothing, now a little and now all of it."""
    shapes, attrs = levels["call"]
    if not _smooths(op, shapes[0][1]):
        return shapes, attrs
    return shapes, {**attrs, "label_smoothing": levels["label_smoothing"]}


def _smooths(op: Op, classes: int) -> bool:
    return "label_smoothing" in op.attributes and classes <= MOST_SMOOTHED


def _draw_score(draw: Draw, op: Op, direction: str) -> Signature:
    classes = extent(draw, 33)
    rows = extent(draw, 17, -(-ENOUGH // classes) if direction == "vjp" else ENOUGH)
    reductions = (
        ("none", "mean", "none", "sum") if direction == "value" else ("mean", "none", "sum")
    )
    attrs: dict[str, Any] = {
        "ignore_index": draw(st.sampled_from((-100, 0, -1))),
        "reduction": draw(st.sampled_from(reductions)),
    }
    if "label_smoothing" in op.attributes:
        amounts = (0.0, 0.1, 1.0) if _smooths(op, classes) else (0.0,)
        attrs["label_smoothing"] = draw(st.sampled_from(amounts))
    return ((rows, classes), (rows,)), attrs


def _reduction(pick: int) -> str:
    return ("mean", "sum", "none")[pick % 3]


def _scored(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: len(shape) == 2 and shape[1] > 0)
    if x is None:
        return None
    labels = offer.labels(picks[1], *offer.shapes[x])
    return (x, labels), {"reduction": _reduction(picks[2])}


REDUCED_ALSO = (
    *("none", "none", "none", "mean", "none", "none", "none", "sum", "none", "none", "mean"),
    *("none", None, "sum"),
)
"""How distances are reduced, some of them and two long ones; None is the default."""


def _distances(op: Op) -> Factors:
    return {"shape": (*SHAPES, (2, 2051), (3, 1367)), "reduction": REDUCED_ALSO}


def _distance(op: Op, levels: Levels) -> Signature:
    reduction = levels["reduction"]
    return (levels["shape"],) * 2, {} if reduction is None else {"reduction": reduction}


def _draw_distance(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw losses per entry more often: a value that is reduced has one element to judge."""
    drawn = shape(draw, ENOUGH, 300)
    among = ("none", "none", "mean", "sum") if direction == "value" else ("mean", "none", "sum")
    return (drawn, drawn), {"reduction": draw(st.sampled_from(among))}


def _apart(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], has_elements, FACTOR)
    if x is None:
        return None
    y = offer.entry(picks[1], offer.shapes[x].__eq__, FACTOR)
    return (x, y), {"reduction": _reduction(picks[2])}


SCORES = Family(
    "losses of labels",
    _labelled,
    _score,
    always((((0, 3), (0,)), {"reduction": "none"}), (((0, 3), (0,)), {})),
    _draw_score,
    _scored,
)
DISTANCES = Family(
    "losses of distances",
    _distances,
    _distance,
    always(
        (((0,), (0,)), {"reduction": "sum"}),
        (((0, 3), (0, 3)), {"reduction": "none"}),
        (((), ()), {}),
    ),
    _draw_distance,
    _apart,
)
