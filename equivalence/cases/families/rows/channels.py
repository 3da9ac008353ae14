"""Ops that act on each channel, the second axis, over the batch and all further axes.

Every other input has one entry a channel: parameters, and statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import domain, usual
from equivalence.cases.families.exactly import FEW_EXTENTS, leading
from equivalence.cases.families.family import (
    FACTOR,
    Call,
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
)
from equivalence.cases.families.growing import MANY_ROWS, Bearing, Growth, at_most, grows
from equivalence.cases.families.rows.along import MOST_ALONG
from equivalence.cases.families.shapes import (
    BESIDE,
    PLACES,
    around,
    many_lie_beside_short_ones,
    one_entry_leads_where_the_other_axis_does_not,
    place_is_its_own,
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
from equivalence.cases.guard import place as placed
from spec.op import Op

OVER: Factors = {
    "rank": (3, 2, 4, 5),
    "place": PLACES,
    "extent": (33, 2, 8, 31, 64, 65, 128, 257, 513, 1025),
    "rows": BESIDE,
}


def _factors(op: Op) -> Factors:
    return {**OVER, **op.tried}


def _made(op: Op, own: Shape, **attributes: object) -> Signature:
    """Return a call; one input alone says nothing of channels, and such an op refuses a second."""
    return (own, *(own[1:2] for _ in op.inputs[1:] or op.inputs)), attributes


def _enough(own: Shape) -> Shape:
    """Let a channel have two entries at least: what is averaged may want them."""
    return own if math.prod(_averaged(own)) > 1 else (2, *own[1:])


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, _ = around(levels, MOST_ALONG[direction])
    # Who counts the rows has them so, or is refused; how many a word stands for is up to the page.
    counted = not isinstance(levels["rows"], str)
    return _made(op, own if counted else _enough(own), **said(op, levels))


def _empty(op: Op) -> tuple[Signature, ...]:
    """Return calls without channels, and those without samples that the page accepts."""
    told = [{name: v} for name, among in op.tried.items() for v in among if type(v) is bool]
    shapes = (3, 0, 2), (0, 4, 3), (1, 3)
    calls = (_made(op, own, **required(op), **each) for own in shapes for each in told or [{}])
    return tuple(call for call in calls if results(op, call) is not None)


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 160, min_rank=2, max_rank=4)
    return _made(op, _enough(own), **chosen(draw, op))


def _small(draw: Draw, op: Op) -> Signature:
    own = (draw(FEW_EXTENTS), draw(FEW_EXTENTS), *leading(draw, 2))
    return _made(op, own, **chosen(draw, op))


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Let eps be so large that a constant channel sends no large gradient back."""
    x = offer.entry(picks[0], lambda shape: len(shape) > 1, FACTOR)
    if x is None:
        return None
    line, told = offer.shapes[x][1:2], {"eps": 1.0}
    others: list[Any] = []
    for k in range(1, len(op.inputs)):
        where = domain(op, k, {**usual(op), **told, "training": False})
        if k in op.buffers:
            others.append(offer.buffer(picks[k % 3] + k, line, where))
        else:
            others.append(offer.entry(picks[1 + k % 2], line.__eq__, FACTOR, where))
    held = [others[k - 1] for k in op.buffers]
    if None in others or len({*held}) < len(held):
        return None
    evaluates = {"training": False} if "training" in op.attributes and picks[1] % 3 == 0 else {}
    return (x, *others), {**told, **evaluates}


def _sample(sampler: Sampler, op: Op) -> Sample:
    parameters = (sampler.normal(sampler.columns) for _ in op.inputs[1:])
    return [sampler.matrix(), *parameters], required(op)


def _averaged(shape: Shape) -> Shape:
    return (shape[0], *shape[2:])


def a_channel_has_three_entries(call: Call) -> bool:
    """Of two entries the normal form is a sign, if they are averaged, and dx is next to nothing."""
    return math.prod(_averaged(call.shapes[0])) > 2


def entries_of_a_channel_differ(call: Call) -> bool:
    """Of a channel of equal entries the value is known, and the cotangent sends nothing back."""
    varies = "seed_layout" if call.direction == "vjp" else "layout_0"
    strides = placed(call.shapes[0], call.levels.get(varies, "contiguous")).strides
    extents = _averaged(call.shapes[0])
    flat = call.direction != "vjp" and call.levels.get("regime_0") == "constant"
    walked = zip(_averaged(strides), extents, strict=True)
    return not flat and any(s > 0 and n > 1 for s, n in walked)


def _of(shape: Callable[[int], Shape]) -> Callable[[Op, int], Signature]:
    return lambda op, n: _made(op, shape(n), **required(op))


GROWTHS = (
    Growth("entries", _of(lambda n: (2, 4, n)), 2**12, 1_371),
    Growth("channels", _of(lambda n: (3, n)), 2**16, 4_099),
    Growth("rows", _of(lambda n: (n, 4)), MANY_ROWS, 2_731),
    Growth("both", _of(lambda n: (n, 5, 7)), 9_377, 2_731),
    Growth("entries", _of(lambda n: (3, 4, n)), 2**10, 2**10, ("offset",)),
)

CHANNELS = Family(
    name="channels",
    factors=_factors,
    rules=(
        place_is_its_own,
        many_lie_beside_short_ones,
        one_entry_leads_where_the_other_axis_does_not,
    ),
    call=_call,
    empty=_empty,
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    bearing=Bearing(shared=True, most=at_most(3), carried=lambda op: True),
    operands=_operands,
    sample=_sample,
    shows=(a_channel_has_three_entries, entries_of_a_channel_differ),
)
