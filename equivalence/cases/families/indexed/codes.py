"""Ops of real tensors and integers side by side, whose extents are related.

Such are products with a matrix of codes, codes that are looked up in a small table, and numbers
gated by integers. Which shapes the inputs have is found by trying: each has some of three extents,
of which the inner one may be cut into groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

import torch

from equivalence.cases.call import integers_at
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import usual
from equivalence.cases.families.exactly import FEW_EXTENTS
from equivalence.cases.families.family import Family, Offer, Operands, Picks, Sample, Sampler
from equivalence.cases.families.growing import (
    MANY_ROWS,
    SPREAD,
    WHOLE,
    Bearing,
    Grow,
    Growth,
    at_most,
)
from equivalence.cases.families.products.linear_layers import (
    LAYERED,
    a_single_row_is_one,
    shared_out,
)
from equivalence.cases.families.products.products import BOTH, MOST, NEARLY, PAIRED, THIN
from equivalence.cases.families.shapes import extent
from equivalence.cases.families.signatures import Draw, Shape, Signature, chosen, results
from spec.op import Op

FORMS = (
    *(("rows", "inner"), ("columns", "inner"), ("inner", "columns"), ("rows", "columns")),
    *(("columns",), ("inner",), ("rows",), ()),
)
"""What the shape of an input may be, the likeliest first."""

MOST_INPUTS = 5
"""Of more inputs, too many arrangements would have to be tried."""

TRIED = {"rows": 5, "columns": 7, "groups": 2, "inner": 6}
"""Extents of which none is another: what suits them all is no accident."""

Arrangement = tuple[tuple[str, ...], ...]
"""A form for each input."""

GROUPED: Factors = {"groups": (2, 1, 3, 16, 33), "size": (4, 1, 2, 8, 16, 32)}
"""How many groups the inner extent is cut into, and how long each is."""


@cache
def arrangement(op: Op) -> Arrangement | None:
    """Return the forms of the inputs: those of most extents, among those that the rule accepts.

    Where an input also fits a part of the inner extent, it has an entry for each group.
    """
    count = len(op.inputs)
    if op.variadic or not op.integer_inputs or not len(op.index_inputs) < count <= MOST_INPUTS:
        return None
    found: Arrangement = ()
    for forms in product(FORMS, repeat=count):
        if len(_names(forms)) > len(_names(found)) and _accepts(op, forms):
            found = forms
            if len(_names(found)) == len(_names(FORMS)):
                break
    for k, form in enumerate(found):
        groups = tuple("groups" if name == "inner" else name for name in form)
        cut = (*found[:k], groups, *found[k + 1 :])
        if "inner" in _names(cut) and _accepts(op, cut):
            found = cut
    return found or None


def _names(forms: Arrangement) -> set[str]:
    return {name for form in forms for name in form}


def _accepts(op: Op, forms: Arrangement) -> bool:
    return results(op, (_shapes(forms, TRIED), usual(op))) is not None


def _shapes(forms: Arrangement, extents: Mapping[str, int]) -> tuple[Shape, ...]:
    return tuple(tuple(extents[name] for name in form) for form in forms)


@cache
def led(op: Op) -> int | None:
    """Return the input whose rows may lie along several axes, or along none."""
    forms = arrangement(op) or ()
    having = [k for k, form in enumerate(forms) if "rows" in form]
    if len(having) != 1 or forms[having[0]][0] != "rows":
        return None
    (k,) = having
    before, (_, *own), behind = forms[:k], forms[k], forms[k + 1 :]
    led_ones = [(*before, (*lead, *own), *behind) for lead in ((), ("rows", "columns"))]
    return k if all(_accepts(op, led_forms) for led_forms in led_ones) else None


def _extents(op: Op) -> tuple[str, ...]:
    """Return the extents that a call of an op chooses."""
    names = _names(arrangement(op) or ())
    if "groups" in names:
        names = names - {"inner"} | {"size"}
    return tuple(name for name in ("rows", "inner", "groups", "size", "columns") if name in names)


def _factors(op: Op) -> Factors:
    leading: Factors = {} if led(op) is None else {"leading": LAYERED["leading"]}
    known = {**PAIRED, **GROUPED}
    return {**leading, **{name: known[name] for name in _extents(op)}, **op.tried}


def _made(
    op: Op, extents: Mapping[str, int], attributes: Mapping[str, Any], leading: int | None = 0
) -> Signature:
    """Return the call of some extents, which is none where no arrangement was found."""
    known, forms = {**extents}, arrangement(op)
    if "groups" in known:
        known["inner"] = known["groups"] * known["size"]
    shapes = [] if forms is None else [*_shapes(forms, known)]
    if (k := led(op)) is not None:
        shapes[k] = (*shared_out(leading, known["rows"]), *shapes[k][1:])
    return tuple(shapes), {**usual(op), **attributes}


def few_are_multiplied(rows: int, inner: int, columns: int) -> bool:
    """Every row may meet every column, which costs too much where all are long."""
    return rows * inner * columns <= MOST


def few_are_multiplied_in_groups(rows: int, groups: int, size: int, columns: int) -> bool:
    """So it is in groups."""
    return rows * groups * size * columns <= MOST


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    extents = {name: levels[name] for name in _extents(op)}
    attributes = {name: levels[name] for name in op.tried}
    return _made(op, extents, attributes, levels.get("leading", 0))


def _empty(op: Op) -> tuple[Signature, ...]:
    """Return calls with an extent of 0, in which what has to hold integers can."""
    names = _extents(op)
    plain = dict.fromkeys(names, 2)
    calls = [_made(op, {**plain, name: 0}, {}) for name in names]
    return tuple(call for call in calls if results(op, call) is not None and _can_hold(op, call))


def _can_hold(op: Op, call: Signature) -> bool:
    """Say whether each integer input has no entry or a number to hold, in a call that suits."""
    ranges = {k: integers_at(op, k, *call) for k in op.integer_inputs}
    return all(
        allowed.lowest <= allowed.highest or not math.prod(call[0][k])
        for k, allowed in ranges.items()
    )


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw rows and columns of which each counts alone, and what fits between them."""
    rows, columns = extent(draw, 17, 8), extent(draw, 17, 8)
    inner = extent(draw, 3000 // (rows * columns))
    size = extent(draw, inner)
    drawn = {"rows": rows, "inner": inner, "groups": inner // size, "size": size}
    return _made(op, _used(op, {**drawn, "columns": columns}), chosen(draw, op))


def _small(draw: Draw, op: Op) -> Signature:
    """Draw extents, and none of 0 where an input could hold no integer."""
    extents, attributes = {name: draw(FEW_EXTENTS) for name in _extents(op)}, chosen(draw, op)
    drawn = _made(op, extents, attributes)
    if results(op, drawn) is None or _can_hold(op, drawn):
        return drawn
    return _made(op, {name: max(n, 1) for name, n in extents.items()}, attributes)


def _used(op: Op, extents: Mapping[str, int]) -> dict[str, int]:
    return {name: extents[name] for name in _extents(op)}


def _grown(name: str, size: int = 3, **others: int) -> Grow:
    """Return calls in which one extent grows; where the inner one has groups, these are long."""

    def call(op: Op, n: int) -> Signature:
        extents = {**others, name: n}
        grouped = {**extents, "groups": size, "size": extents["inner"] // size}
        return _made(op, _used(op, grouped), {})

    return call


EVERY_GROWTH = (
    Growth("inner", _grown("inner", rows=64, columns=65), 2**13, 1_025, WHOLE),
    Growth("inner", _grown("inner", rows=33, columns=35), 513, 513, SPREAD),
    Growth("rows", _grown("rows", inner=15, columns=3), MANY_ROWS, 2_731, WHOLE),
    Growth("columns", _grown("columns", rows=17, inner=33), MANY_ROWS, 1_025, SPREAD),
    Growth("rows", _grown("rows", inner=2 * 9, columns=BOTH + 2), BOTH, NEARLY, WHOLE),
    Growth("columns", _grown("columns", rows=THIN, inner=BOTH + 2), BOTH, NEARLY, WHOLE),
)
"""The last two have both axes of a result beyond every likely tile."""


def _growths(op: Op) -> tuple[Growth, ...]:
    """Return the ways in which an op can grow: along the extents that it has."""
    names = {*_extents(op), *(["inner"] if "groups" in _extents(op) else [])}
    return tuple(growth for growth in EVERY_GROWTH if growth.what in names)


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Find nothing: a session holds positions, and no codes."""
    return None


def _sample(sampler: Sampler, op: Op) -> Sample:
    sizes = {"rows": sampler.rows, "inner": sampler.columns, "columns": 5, "groups": 2, "size": 8}
    shapes, attributes = signature = _made(op, _used(op, sizes), {})
    inputs = [sampler.normal(*shape) for shape in shapes]
    for k in op.index_inputs:
        if k in op.mask_inputs:
            inputs[k] = sampler.below(2, *shapes[k]).to(torch.bool)
        else:
            allowed = integers_at(op, k, *signature)
            inputs[k] = sampler.below(allowed.highest - allowed.lowest + 1, *shapes[k])
            inputs[k] += allowed.lowest
    return inputs, attributes


CODES = Family(
    name="codes",
    factors=_factors,
    rules=(few_are_multiplied, few_are_multiplied_in_groups, a_single_row_is_one),
    call=_call,
    empty=_empty,
    draw=_draw,
    small=_small,
    growths=_growths,
    bearing=Bearing(shared=True, added=True, most=at_most(1)),
    operands=_operands,
    sample=_sample,
)
