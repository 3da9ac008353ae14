"""Losses: of predictions against targets, or of rows of classes against labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import domain, usual
from equivalence.cases.families.elementwise import SIZED, SIZES, alike
from equivalence.cases.families.family import (
    BESIDE,
    FACTOR,
    RANKS,
    Call,
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Shape,
    Signature,
    always,
    around,
    extent,
    has_elements,
    many_lie_beside_short_ones,
    shape,
)
from equivalence.cases.guard import place
from spec.op import Op

LABELLED: Factors = {
    "rows": (8, 1, 2, 9, 33, 65, 257),
    "classes": (10, 1, 2, 33, 65, 129, 257, 513),
    "reduction": ("none", "mean", "sum", None),
    "ignore_index": (None, 0, -1),
    "label_smoothing": (None, 0.1, 1.0, 0.25),
    "weight": (None, "halves", "tenths", "alternate"),
    "rest": ((), (2,), (3, 1), (1, 2, 2)),
}
"""None is the default of the op; rest are the axes behind that of the classes."""

ROWS_APART: Factors = {
    "rank": RANKS,
    "extent": (33, 1, 2, 8, 31, 64, 65, 257, 513),
    "rows": BESIDE,
}
MOST_APART = {"value": 600, "vjp": 300, "jvp": 300}
"""So many entries, at most, lie in rows with others beside them."""

WEIGHTS: Mapping[str, Callable[[int], float]] = {
    "halves": lambda c: (c % 5 + 1) / 2,
    "tenths": lambda c: (c % 7 + 1) / 10,
    "alternate": lambda c: float(c % 2),
}
"""How much a class weighs, by its number."""

MOST_LOGITS = {"value": 2100, "vjp": 600, "jvp": 600}
"""So many logits, at most, make a loss or its derivative, which costs the reference more."""


def _labelled(op: Op) -> Factors:
    takes = {"rows", "classes", "rest", *op.attributes}
    return {name: levels for name, levels in LABELLED.items() if name in takes}


def many_rows_of_many_classes_cost_too_much(
    direction: str, rows: int, classes: int, rest: Shape
) -> bool:
    """What has many rows and many classes is a matter of real sizes."""
    return rows * classes * math.prod(rest) <= MOST_LOGITS[direction]


def a_mean_divides_by_something(reduction: str, weight: str | None) -> bool:
    """Where every label may weigh 0, the mean is a matter of the page's edges."""
    return weight != "alternate" or reduction in ("none", "sum")


def _score(op: Op, direction: str, levels: Levels) -> Signature:
    """Score rows."""
    attrs = {
        name: level for name, level in levels.items() if name in op.attributes and level is not None
    }
    return _scores(attrs, levels["rows"], levels["classes"], levels["rest"])


def _scores(attrs: dict[str, Any], rows: int, classes: int, rest: Shape) -> Signature:
    """Return a call whose weights are written out."""
    if attrs.get("weight") is not None:
        attrs["weight"] = tuple(map(WEIGHTS[attrs["weight"]], range(classes)))
    return ((rows, classes, *rest), (rows, *rest)), attrs


def two_classes_are_there(call: Call) -> bool:
    """One class is certain."""
    return call.shapes[0][1] > 1


def scores_differ(call: Call) -> bool:
    """Where every class scores the same, every label costs the same."""
    layout = call.levels.get("layout_0", "contiguous")
    flat = (
        call.levels.get("regime_0") == "constant" or place(call.shapes[0], layout).strides[1] == 0
    )
    return call.direction != "value" or call.op.kind == "linear" or not flat


def a_label_counts(call: Call) -> bool:
    """Rows that are all ignored show nothing."""
    return call.levels.get("regime_1") != "all_ignored"


def a_class_weighs(call: Call) -> bool:
    """Where nothing weighs, nothing is lost."""
    return call.attributes.get("weight") is None or any(call.attributes["weight"])


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
        attrs["label_smoothing"] = draw(st.sampled_from((0.0, 0.1, 1.0)))
    attrs["weight"] = draw(st.sampled_from((None, None, "halves", "tenths")))
    return _scores(attrs, rows, classes, draw(st.sampled_from(((), (), (2,), (1, 3)))))


def _reduction(pick: int) -> str:
    return ("mean", "sum", "none")[pick % 3]


def _scored(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: len(shape) == 2 and shape[1] > 0)
    if x is None:
        return None
    labels = offer.labels(picks[1], *offer.shapes[x])
    return (x, labels), {"reduction": _reduction(picks[2])}


def _distances(op: Op) -> Factors:
    return {**SIZES, **op.tried, "reduction": ("none", "mean", "sum", None)}


def _distance(op: Op, direction: str, levels: Levels) -> Signature:
    shapes, attributes = alike(op, around(levels)[0], levels)
    reduction = levels["reduction"]
    return shapes, attributes if reduction is None else {**attributes, "reduction": reduction}


def _draw_distance(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw losses per entry more often: a value that is reduced has one element to judge."""
    drawn = shape(draw, ENOUGH, 300)
    among = ("none", "none", "mean", "sum") if direction == "value" else ("mean", "none", "sum")
    levels = {name: draw(st.sampled_from(tried)) for name, tried in op.tried.items()}
    shapes, attributes = alike(op, drawn, levels)
    return shapes, {**attributes, "reduction": draw(st.sampled_from(among))}


def _apart(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], has_elements, FACTOR, domain(op, 0))
    if x is None:
        return None
    y: Any = None
    if op.mask_inputs:
        y = offer.mask(picks[1], offer.shapes[x])
    else:
        y = offer.entry(picks[1], offer.shapes[x].__eq__, FACTOR, domain(op, 1))
    if y is None:
        return None
    return (x, y), {**usual(op), "reduction": _reduction(picks[2])}


def _triplets(op: Op) -> Factors:
    return {"reduction": ("none", "mean", "sum", None), **ROWS_APART, **op.tried}


def _triplet(op: Op, direction: str, levels: Levels) -> Signature:
    own, _ = around({**levels, "place": "last"}, MOST_APART[direction])
    return _of_rows(op, own, levels, levels["reduction"])


def _of_rows(op: Op, own: Shape, levels: Levels, reduction: str | None) -> Signature:
    shapes, attributes = alike(op, own, levels)
    return shapes, attributes if reduction is None else {**attributes, "reduction": reduction}


def _draw_triplet(draw: Draw, op: Op, direction: str) -> Signature:
    levels = {name: draw(st.sampled_from(tried)) for name, tried in op.tried.items()}
    own = shape(draw, ENOUGH, 120, min_rank=1, max_rank=3)
    return _of_rows(op, own, levels, draw(st.sampled_from(("none", "mean", "sum"))))


def _three(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    first = offer.entry(picks[0], lambda shape: len(shape) > 0 and has_elements(shape), FACTOR)
    if first is None:
        return None
    fits = offer.shapes[first].__eq__
    second, third = (offer.entry(pick, fits, FACTOR) for pick in picks[1:3])
    if second is None or third is None:
        return None
    return (first, second, third), {**usual(op), "eps": 0.25, "reduction": _reduction(picks[2])}


SCORES = Family(
    "losses of labels",
    _labelled,
    (many_rows_of_many_classes_cost_too_much, a_mean_divides_by_something),
    _score,
    always((((0, 3), (0,)), {"reduction": "none"}), (((0, 3), (0,)), {})),
    _draw_score,
    _scored,
    (two_classes_are_there, scores_differ, a_label_counts, a_class_weighs),
)
DISTANCES = Family(
    "losses of distances",
    _distances,
    SIZED,
    _distance,
    always(
        (((0,), (0,)), {"reduction": "sum"}),
        (((0, 3), (0, 3)), {"reduction": "none"}),
        (((), ()), {}),
    ),
    _draw_distance,
    _apart,
)
TRIPLETS = Family(
    "losses of triplets",
    _triplets,
    (many_lie_beside_short_ones,),
    _triplet,
    always(
        (((0, 3),) * 3, {"reduction": "none"}),
        (((2, 0),) * 3, {"reduction": "none"}),
        (((3,),) * 3, {}),
    ),
    _draw_triplet,
    _three,
)
