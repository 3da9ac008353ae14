"""Losses of rows of classes against labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import FEW_EXTENTS
from equivalence.cases.families.family import Call, Family, Offer, Operands, Picks, Sample, Sampler
from equivalence.cases.families.growing import (
    MANY_ROWS,
    SPREAD,
    WHOLE,
    Bearing,
    Growth,
    at_most,
    fixed,
    grows,
)
from equivalence.cases.families.losses.reduced import REDUCED, reduced_as
from equivalence.cases.families.shapes import extent
from equivalence.cases.families.signatures import Draw, Shape, Signature, always, chosen, said
from equivalence.cases.guard import place
from spec.op import Op

LABELLED: Factors = {
    "rows": (8, 1, 2, 9, 33, 65, 257),
    "classes": (10, 1, 2, 33, 65, 129, 257, 513),
    "reduction": REDUCED,
    "ignore_index": (None, 0, -1),
    "weight": (None, "halves", "tenths", "alternate"),
    "rest": ((), (2,), (3, 1), (1, 2, 2)),
}
"""None is the default of the op; rest are the axes behind that of the classes."""

WEIGHTS: Mapping[str, Callable[[int], float]] = {
    "halves": lambda c: (c % 5 + 1) / 2,
    "tenths": lambda c: (c % 7 + 1) / 10,
    "alternate": lambda c: float(c % 2),
}
"""How much a class weighs, by its number."""

MOST_LOGITS = {"value": 2100, "vjp": 600, "jvp": 600}
"""So many logits, at most, make a loss or its derivative, which costs the reference more."""


def _factors(op: Op) -> Factors:
    takes = {"rows", "classes", "rest", *op.attributes}
    known = {name: levels for name, levels in LABELLED.items() if name in takes}
    last: dict[str, Sequence[Any]] = {
        name: known.pop(name) for name in ("weight", "rest") if name in known
    }
    return {**known, **op.tried, **last}


def many_rows_of_many_classes_cost_too_much(
    direction: str, rows: int, classes: int, rest: Shape
) -> bool:
    """What has many rows and many classes is a matter of real sizes."""
    return rows * classes * math.prod(rest) <= MOST_LOGITS[direction]


def a_mean_divides_by_something(reduction: str, weight: str | None) -> bool:
    """Where every label may weigh 0, the mean is a matter of the page's edges."""
    return weight != "alternate" or reduction in ("none", "sum")


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    """Score rows."""
    told = {n: levels[n] for n in LABELLED if n in op.attributes and levels[n] is not None}
    return _scores({**told, **said(op, levels)}, levels["rows"], levels["classes"], levels["rest"])


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


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    classes = extent(draw, 33)
    rows = extent(draw, 17, -(-ENOUGH // classes) if direction == "vjp" else ENOUGH)
    reductions = (
        ("none", "mean", "none", "sum") if direction == "value" else ("mean", "none", "sum")
    )
    attrs: dict[str, Any] = {
        "ignore_index": draw(st.sampled_from((-100, 0, -1))),
        "reduction": draw(st.sampled_from(reductions)),
    }
    attrs |= chosen(draw, op)
    attrs["weight"] = draw(st.sampled_from((None, None, "halves", "tenths")))
    return _scores(attrs, rows, classes, draw(st.sampled_from(((), (), (2,), (1, 3)))))


def _small(draw: Draw, op: Op) -> Signature:
    rows, classes = draw(FEW_EXTENTS), draw(FEW_EXTENTS)
    rest: Shape = draw(st.sampled_from([(), (), (2,), (1, 2), (0,)]))
    attrs: dict[str, Any] = {"ignore_index": draw(st.sampled_from([-100, -1, 1]))}
    weights = st.tuples(*[st.sampled_from([1, 0, 0.5, 3])] * classes)
    attrs["weight"] = draw(st.none() | weights)
    attrs["reduction"] = draw(st.sampled_from(["mean", "mean", "sum", "none"]))
    return ((rows, classes, *rest), (rows, *rest)), {**attrs, **chosen(draw, op)}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: len(shape) == 2 and shape[1] > 0)
    if x is None:
        return None
    labels = offer.labels(picks[1], *offer.shapes[x])
    return (x, labels), {"reduction": reduced_as(picks[2])}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix(), sampler.below(sampler.columns, sampler.rows)], {}


def _with_all_settings(op: Op, n: int) -> Signature:
    """Take the last value of every attribute that the page tries."""
    return ((n, 65), (n,)), {"reduction": "none", **{k: v[-1] for k, v in op.tried.items()}}


GROWTHS = (
    Growth("rows", fixed(lambda n: ((n, 9), (n,)), reduction="none"), MANY_ROWS, 2_731),
    Growth("columns", fixed(lambda n: ((8, n), (8,)), reduction="none"), 2**17, 8_201),
    Growth(
        "rows",
        _with_all_settings,
        4_099,
        515,
        SPREAD,
    ),
    Growth("rows", fixed(lambda n: ((n, 5), (n,)), reduction="mean"), 2**17, 2**11, WHOLE),
)
"""Where a mean is judged to the bit it has a power of two of terms."""

SCORES = Family(
    name="losses of labels",
    factors=_factors,
    rules=(many_rows_of_many_classes_cost_too_much, a_mean_divides_by_something),
    call=_call,
    empty=always((((0, 3), (0,)), {"reduction": "none"}), (((0, 3), (0,)), {})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(
        most=at_most(31),
        below=lambda op: op.kind == "linear",
        singly=lambda attributes: attributes.get("weight") is not None,
    ),
    operands=_operands,
    sample=_sample,
    shows=(two_classes_are_there, scores_differ, a_label_counts, a_class_weighs),
)
