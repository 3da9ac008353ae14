"""What a covering test asks for, and how it reads it off a case: written apart from the families.

Every family has a table of factors: their levels, and a function that reads the level of a case.
Levels are listed here a second time on purpose: a level that a family loses is then missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from equivalence.cases.call import CALLING_PATTERNS, CaseSpec
from equivalence.cases.domains import COTANGENTS, GROUPS, grouped, regimes
from equivalence.cases.families.shapes import BESIDE, MANY
from equivalence.cases.guard import LAYOUTS
from spec.ops import OPS

Read = Callable[[CaseSpec], Any]
Table = dict[str, tuple[tuple[Any, ...], Read]]

DEFAULT = "default"

EXTENTS = {"extent", "batch", "rows", "inner", "columns", "classes"}

SIZES = ((1, "one"), (16, "a vector"), (129, "a tile"), (513, "some tiles"))


def classed(name: str, level: Any) -> Any:
    """Return the class of an extent: in pairs, one of a class stands for the others."""
    if name not in EXTENTS or not isinstance(level, int):
        return level
    return next((size for most, size in SIZES if level <= most), "blocks")


def attribute(name: str, unsaid: Any = DEFAULT) -> Read:
    return lambda case: case.attributes().get(name, unsaid)


def own(case: CaseSpec) -> tuple[int, ...]:
    shape: tuple[int, ...] = case.shapes[0] if case.shapes else case.attributes()["shape"]
    return shape


def rank(case: CaseSpec) -> int:
    return len(own(case))


def along(case: CaseSpec) -> int:
    return own(case)[case.attributes()["axis"]]


def sign(case: CaseSpec) -> str:
    return "negative" if case.attributes()["axis"] < 0 else "positive"


def axis_named(case: CaseSpec) -> str | None:
    return None if case.attributes()["axis"] is None else sign(case)


def searched(case: CaseSpec) -> int:
    return longest(case) if case.attributes()["axis"] is None else along(case)


def searched_place(case: CaseSpec) -> str | None:
    return long_place(case) if case.attributes()["axis"] is None else axis_place(case)


def signs(case: CaseSpec) -> str:
    axes = case.attributes().get("axes") or ()
    kinds = {axis < 0 for axis in axes}
    return "mixed" if len(kinds) == 2 else "negative" if True in kinds else "positive"


def longest(case: CaseSpec) -> int:
    return max(own(case), default=1)


def axes_named(case: CaseSpec) -> Any:
    axes = case.attributes().get("axes", DEFAULT)
    if axes == DEFAULT or not axes:
        return axes
    return "all" if len(axes) == rank(case) else "one" if len(axes) == 1 else "several"


def order(case: CaseSpec) -> str:
    axes = case.attributes().get("axes", ())
    plain = [axis % rank(case) for axis in axes]
    return "ascending" if plain == sorted(plain) else "another"


def inputs(case: CaseSpec) -> int:
    return len(case.shapes)


def beside(case: CaseSpec) -> str:
    shape = [n for n in own(case) if n > 1]
    square = len(shape) == 2 and shape[0] == shape[1] > 2
    if own(case)[:1] == (1,) and len(own(case)) > 2 and max(own(case)) != MANY:
        return "behind one"
    return "many" if MANY in own(case) else "square" if square else "few"


def _place(axis: int, axes: int) -> str:
    return "last" if axis % axes == axes - 1 else "first" if axis % axes == 0 else "middle"


def axis_place(case: CaseSpec) -> str:
    return _place(case.attributes()["axis"], rank(case))


def long_place(case: CaseSpec) -> str | None:
    """Tell where the long axis lies, if one is long."""
    shape = case.attributes().get("shape") or own(case)
    # Where an input is repeated, axes may have come before its own.
    shape = shape[-rank(case) :] if case.op == "broadcast_to" else shape
    return _place(shape.index(max(shape)), len(shape)) if max(shape, default=0) > 30 else None


def source_place(case: CaseSpec) -> str | None:
    """Tell where the long axis of an input lies, if one is long."""
    shape = own(case)
    return _place(shape.index(max(shape)), len(shape)) if max(shape) > 30 else None


def repeated(case: CaseSpec) -> str:
    target = case.attributes()["shape"][-rank(case) :]
    if own(case) == target:
        return "none"
    return "all" if math.prod(own(case)) == 1 else "some"


def target(case: CaseSpec) -> str:
    shape = case.attributes()["shape"]
    if len(shape) == 1:
        return "flat"
    return "as many" if len(shape) == rank(case) else "more" if len(shape) > rank(case) else "fewer"


def length(case: CaseSpec) -> str:
    attrs = case.attributes()
    rest = along(case) - attrs["start"]
    if rest < 5:
        return "short"
    return {rest: "rest", 1: "one", rest - 1: "but one"}.get(attrs["length"], "half")


def permuted(case: CaseSpec) -> str | None:
    axes = [axis % rank(case) for axis in case.attributes()["axes"]]
    if len(axes) < 3:
        return None
    return "kept" if axes == sorted(axes) else "reversed" if axes == sorted(axes)[::-1] else "other"


def span(case: CaseSpec) -> str:
    attrs = case.attributes()
    count = attrs.get("end", -1) % rank(case) - attrs.get("start", 0) % rank(case) + 1
    return "all" if count == rank(case) else "one" if count == 1 else "some"


def ends_named(case: CaseSpec) -> str:
    attrs = case.attributes()
    start, end = attrs.get("start", 0), attrs.get("end", -1)
    return "mixed" if start >= 0 > end else "negative" if end < 0 else "positive"


def turned(case: CaseSpec) -> str:
    axes = case.attributes().get("axes")
    if axes is None or len(axes) == rank(case):
        return "all"
    return "none" if not axes else "one" if len(axes) == 1 else "some"


def joined(case: CaseSpec) -> str:
    at = case.attributes()["axis"] % (rank(case) + 1)
    return "front" if at == 0 else "back" if at == rank(case) else "inside"


def others(case: CaseSpec) -> str:
    axis = case.attributes()["axis"]
    extents = [shape[axis] for shape in case.shapes]
    if 0 in extents:
        return "empty first" if extents[0] == 0 else "empty"
    return "same" if len(set(extents)) == 1 else "one" if set(extents[1:]) == {1} else "growing"


def shared(case: CaseSpec) -> str | None:
    """Tell how channels are shared out to groups, where there are several of them."""
    groups, channels = case.attributes()["groups"], own(case)[1]
    if channels == 1:
        return None
    return "one" if groups == 1 else "each" if groups == channels else "some"


RANKS = (1, 2, 3, 4, 5, 6)
LONG = (1, 2, 8, 31, 33, 64, 65, 128, 257, 513, 1025)
PLACES = ("last", "first", "middle")
SIZED: Table = {
    "rank": ((0, *RANKS), rank),
    "extent": ((7, 8, 9, 31, 33, 64, 65, 127, 257, 1024, 1025), longest),
    "place": (PLACES, long_place),
}
PLACED: Table = {
    "rank": (RANKS, rank),
    "extent": ((31, 33, 64, 65, 128, 257, 1025), longest),
    "place": (PLACES, long_place),
}
NAMES = ("positive", "negative")
PRODUCTS = {
    "rows": ((1, 3, 5, 8, 15, 16, 17, 33, 65), lambda case: math.prod(case.shapes[0][:-1])),
    "inner": ((1, 2, 7, 8, 16, 33, 65, 257, 513), lambda case: case.shapes[0][-1]),
}
COLUMNS = (1, 2, 8, 9, 15, 16, 17, 33, 65)
REDUCTIONS = ("none", "mean", "sum", DEFAULT)


def first_weight(case: CaseSpec) -> float | None:
    """Return the weight of the first class, by which the weights of a case are told."""
    weight = case.attributes().get("weight")
    return None if weight is None else float(weight[0])


EPS = ((DEFAULT, 1e-3, 1e-8, 1.0), attribute("eps"))

WANTED: dict[str, Table] = {
    "elementwise": SIZED,
    "random": {
        **SIZED,
        "seed": (
            (0, 7, 2**32 - 1, 2**32, 2**63 + 5, 2**64 - 1, 1234567890123456789),
            attribute("seed"),
        ),
        "counter": ((0, 1, 2**32 + 1, 2**63, 2**64 - 1), attribute("counter")),
    },
    "reductions": {
        "rank": (RANKS, rank),
        "extent": ((31, 33, 64, 65, 128, 257, 513, 1025), longest),
        "place": (PLACES, long_place),
        "beside": (BESIDE, beside),
        "axes": (((), "one", "several", "all", DEFAULT), axes_named),
        "order": (("ascending", "another"), order),
        "name": ((*NAMES, "mixed"), signs),
        "keepdims": ((False, True), attribute("keepdims")),
    },
    "positions": {
        "rank": (RANKS, rank),
        "extent": ((31, 33, 64, 65, 128, 257, 513, 1025), searched),
        "place": (PLACES, searched_place),
        "beside": (BESIDE, beside),
        "name": ((*NAMES, None), axis_named),
        "keepdims": ((False, True), attribute("keepdims")),
    },
    "rows": {
        "rank": (RANKS, rank),
        "extent": (LONG, along),
        "place": (PLACES, axis_place),
        "beside": (BESIDE, beside),
        "name": (NAMES, sign),
    },
    "norms": {
        "rank": (RANKS, rank),
        "extent": (LONG, lambda case: own(case)[-1]),
        "beside": (BESIDE, beside),
        "span": ((1, 2, 3), lambda case: len(case.shapes[1])),
        "eps": EPS,
    },
    "groups": {
        "rank": ((2, 3, 4, 5), rank),
        "extent": ((31, 33, 64, 65, 128, 257, 513, 1025), longest),
        "place": (PLACES, long_place),
        "beside": (BESIDE, beside),
        "shared": (("some", "one", "each"), shared),
        "eps": EPS,
    },
    "channels": {
        "rank": ((2, 3, 4, 5), rank),
        "extent": ((31, 33, 64, 65, 128, 257, 513, 1025), longest),
        "place": (PLACES, long_place),
        "beside": (BESIDE, beside),
    },
    "broadcasts": {
        **PLACED,
        "extent": ((31, 33, 64, 65, 128, 257, 1025), lambda case: max(case.attributes()["shape"])),
        "repeated": (("none", "some", "all"), repeated),
        "leading": ((0, 1, 2), lambda case: len(case.attributes()["shape"]) - rank(case)),
    },
    "reshapes": {
        **PLACED,
        "place": (PLACES, source_place),
        "target": (("flat", "as many", "fewer", "more"), target),
    },
    "permutations": {
        **PLACED,
        "order": (("ascending", "another"), order),
        "permuted": (("kept", "reversed", "other"), permuted),
        "name": ((*NAMES, "mixed"), signs),
    },
    "flattenings": {
        **PLACED,
        "place": (PLACES, source_place),
        "span": (("all", "some", "one"), span),
        "name": ((*NAMES, "mixed"), ends_named),
    },
    "flips": {
        **PLACED,
        "turned": (("none", "one", "some", "all"), turned),
        "name": ((*NAMES, "mixed"), signs),
    },
    "paddings": {
        **PLACED,
        "before": ((False, True), lambda case: any(case.attributes()["before"])),
        "after": ((False, True), lambda case: any(case.attributes()["after"])),
        "value": ((0.0, 1.5, -3.0, 0.1), attribute("value")),
    },
    "stacks": {
        **PLACED,
        "place": (PLACES, source_place),
        "joined": (("front", "back", "inside"), joined),
        "inputs": ((1, 2, 3, 4, 5, 6), inputs),
        "name": (NAMES, sign),
    },
    "triangles": {
        "rank": ((2, 3, 4, 5, 6), rank),
        "rows": ((1, 2, 8, 9, 33, 65, 257), lambda case: own(case)[-2]),
        "columns": ((1, 2, 8, 9, 33, 64, 65, 257), lambda case: own(case)[-1]),
        "diagonal": ((-1, 0, 1), lambda case: min(1, max(-1, case.attributes()["diagonal"]))),
    },
    "picks": {
        "rank": (RANKS, rank),
        "extent": ((1, 2, 8, 9, 31, 33, 64, 65, 257), along),
        "place": (PLACES, axis_place),
        "length": (
            (1, 2, 7, 9, 33, 65, 300),
            lambda case: case.shapes[1][case.attributes()["axis"]],
        ),
        "name": (NAMES, sign),
    },
    "lookups": {
        "rows": ((1, 2, 8, 9, 33, 65, 257), lambda case: case.shapes[1][0]),
        "columns": ((1, 2, 8, 9, 33, 64, 65, 257), lambda case: case.shapes[1][1]),
        "indices": (
            ((), (1,), (7,), (33,), (3, 4), (2, 2, 2), (300,)),
            lambda case: case.shapes[0],
        ),
    },
    "classes": {
        "classes": ((1, 2, 8, 9, 10, 33, 65, 257), attribute("classes")),
        "indices": (
            ((), (1,), (7,), (33,), (3, 4), (2, 2, 2), (300,)),
            lambda case: case.shapes[0],
        ),
    },
    "slices": {
        **PLACED,
        "place": (PLACES, axis_place),
        "first": ((False, True), lambda case: case.attributes()["start"] == 0),
        "length": (("rest", "one", "half", "but one"), length),
        "name": (NAMES, sign),
    },
    "concatenations": {
        "rank": (RANKS, rank),
        "extent": (
            (31, 33, 64, 65, 128, 257, 1025),
            lambda case: max(s[case.attributes()["axis"]] for s in case.shapes),
        ),
        "place": (PLACES, axis_place),
        "others": (("same", "one", "growing", "empty", "empty first"), others),
        "inputs": ((1, 2, 3, 4, 5, 6), inputs),
        "name": (NAMES, sign),
    },
    "gathers": {
        "rank": (RANKS, rank),
        "extent": ((1, 2, 8, 9, 31, 33, 64, 65, 257), along),
        "place": (PLACES, axis_place),
        "indices": (
            ((), (1,), (7,), (33,), (3, 4), (2, 2, 2), (300,)),
            lambda case: case.shapes[1],
        ),
        "name": (NAMES, sign),
    },
    "products": {**PRODUCTS, "columns": (COLUMNS, lambda case: case.shapes[1][1])},
    "batches of products": {
        **PRODUCTS,
        "batch": ((1, 2, 3, 7, 17, 33), lambda case: own(case)[0]),
        "rows": (PRODUCTS["rows"][0], lambda case: own(case)[1]),
        "columns": (COLUMNS, lambda case: case.shapes[1][2]),
    },
    "linear layers": {
        **PRODUCTS,
        "columns": (COLUMNS, lambda case: case.shapes[1][0]),
        "rank": ((1, 2, 3, 4), rank),
    },
    "losses of distances": {**SIZED, "reduction": (REDUCTIONS, attribute("reduction"))},
    "losses of triplets": {
        "rank": (RANKS, rank),
        "extent": ((1, 2, 8, 31, 33, 64, 65, 257, 513), lambda case: own(case)[-1]),
        "rows": (BESIDE, beside),
        "reduction": (REDUCTIONS, attribute("reduction")),
    },
    "losses of labels": {
        "rows": ((1, 2, 8, 9, 33, 65, 257), lambda case: own(case)[0]),
        "classes": ((1, 2, 10, 33, 65, 129, 257, 513), lambda case: own(case)[1]),
        "reduction": (REDUCTIONS, attribute("reduction")),
        "ignore_index": ((DEFAULT, 0, -1), attribute("ignore_index")),
        "weight": ((None, 0.0, 0.1, 0.5), first_weight),
        "rest": (((), (2,), (3, 1), (1, 2, 2)), lambda case: own(case)[2:]),
    },
}
WANTED["scatters"] = WANTED["gathers"]

CHANCES = (0.0, 2.0**-30, 0.1, 1 / 3, 0.5, 0.75, 1 - 2.0**-30, 1.0)

OPTIONAL: Table = {
    "label_smoothing": ((DEFAULT, 0.1, 0.25, 1.0), attribute("label_smoothing")),
    "keep_prob": (
        (0.0, 2.0**-30, 0.1, 1 / 3, 0.5, 0.75, 1 - 2.0**-30, 1.0),
        attribute("keep_prob"),
    ),
    "p": ((0.0, 2.0**-30, 0.1, 1 / 3, 0.5, 0.75, 1 - 2.0**-30, 1.0), attribute("p")),
    "training": ((True, False), attribute("training")),
}
"""Attributes that not all ops of a family have."""


BLURRED = (
    *(long_place, source_place, permuted, length, others, target, repeated, turned, span, shared),
)
"""Readers that tell a level only in some shapes: what meets it there need not meet everywhere."""


GROUP_OF = {regime: name for name, group in GROUPS.items() for regime in group}
"""Of each regime that is one of several in a level: that level."""


def group_of(regime: str) -> str:
    return GROUP_OF.get(regime, regime)


def of_recipes(op: str, direction: str) -> Table:
    """Return the layouts and the regimes of every tensor."""
    page = OPS[op]
    table: Table = {"calling": (CALLING_PATTERNS, lambda case: case.calling)}
    for k, every in enumerate(regimes(page, 2 if page.variadic else len(page.inputs))):
        among = grouped(every)
        table[f"regime_{k}"] = (among, lambda case, k=k: group_of(_recipe(case, k).regime))  # type: ignore[misc]
        table[f"layout_{k}"] = (LAYOUTS, lambda case, k=k: _recipe(case, k).layout)  # type: ignore[misc]
    if direction == "vjp":
        table["seed_regime"] = (
            grouped(COTANGENTS),
            lambda case: group_of(case.seeds()[0][1].regime),
        )
        table["seed_layout"] = (LAYOUTS, lambda case: case.seeds()[0][1].layout)
    return table


def _recipe(case: CaseSpec, k: int) -> Any:
    return case.recipes[min(k, len(case.recipes) - 1)]


def wanted(op: str, family: str, direction: str) -> Table:
    """Return all that must meet in the rows of an op and a direction."""
    optional = {name: told for name, told in OPTIONAL.items() if name in OPS[op].attributes}
    tried = {
        name: (among, attribute(name, OPS[op].attributes[name]))
        for name, among in OPS[op].tried.items()
    }
    return {**WANTED[family], **optional, **tried, **of_recipes(op, direction)}
