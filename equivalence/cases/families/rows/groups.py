"""Ops that act on groups of channels, the second axis, with parameters of one entry a channel."""

from __future__ import annotations

import math
from collections.abc import Callable

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
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
from equivalence.cases.families.signatures import Draw, Shape, Signature, chosen, required, said
from equivalence.cases.guard import place as placed
from spec.op import Op

SHARED = ("some", "one", "each")
"""How channels are shared out: to some groups, to one, or each is a group of its own."""

GROUPED: Factors = {
    "rank": (3, 2, 4, 5),
    "place": PLACES,
    "extent": (33, 1, 2, 8, 31, 64, 65, 128, 257, 513, 1025),
    "rows": BESIDE,
    "shared": SHARED,
}


def _factors(op: Op) -> Factors:
    return {**GROUPED, **op.tried}


def _groups(channels: int, shared: str) -> int:
    """Return how many groups there are; some are as few as can be, but more than one."""
    some = next((d for d in range(2, channels + 1) if channels % d == 0), 1)
    return {"some": some, "one": 1, "each": max(channels, 1)}[shared]


def _made(own: Shape, groups: int, **attributes: object) -> Signature:
    """Return a call, which the page refuses where there are no channels."""
    line = own[1:2]
    return (own, line, line), {"groups": groups, **attributes}


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, _ = around(levels, MOST_ALONG[direction])
    groups = _groups(own[1] if len(own) > 1 else 1, levels["shared"])
    return _made(own, groups, **said(op, levels))


def _empty(op: Op) -> tuple[Signature, ...]:
    return _made((0, 4, 3), 2, **required(op)), _made((2, 4, 0), 2, **required(op))


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 160, min_rank=2, max_rank=4)
    divisors = [d for d in range(1, own[1] + 1) if own[1] % d == 0]
    return _made(own, draw(st.sampled_from(divisors)), **chosen(draw, op))


def _small(draw: Draw, op: Op) -> Signature:
    groups, size = draw(st.integers(1, 3)), draw(FEW_EXTENTS)
    own = (draw(FEW_EXTENTS), groups * size, *leading(draw, 2))
    return _made(own, groups, **chosen(draw, op))


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Let eps be so large that a constant group sends no large gradient back."""
    x = offer.entry(picks[0], lambda shape: len(shape) > 1, FACTOR)
    if x is None:
        return None
    line = offer.shapes[x][1:2]
    gamma, beta = (offer.entry(pick, line.__eq__, FACTOR) for pick in picks[1:3])
    shared = SHARED[picks[2] % len(SHARED)]
    if gamma is None or beta is None:
        return None
    return (x, gamma, beta), {"groups": _groups(line[0], shared), "eps": 1.0}


def _sample(sampler: Sampler, op: Op) -> Sample:
    lines = (sampler.normal(sampler.columns) for _ in range(2))
    return [sampler.matrix(), *lines], {"groups": _groups(sampler.columns, "some"), **required(op)}


def _extents(call: Call) -> tuple[int, ...]:
    """Return the extents of a group, those of its channels and of all further axes."""
    _, channels, *others = call.shapes[0]
    return (channels // call.attributes["groups"], *others)


def a_group_has_two_entries(call: Call) -> bool:
    """A group of one entry is beta whatever the entry is."""
    return math.prod(_extents(call)) > 1


def entries_of_a_group_differ(call: Call) -> bool:
    """Of a group of equal entries the value is known, and the cotangent sends nothing back."""
    varies = "seed_layout" if call.direction == "vjp" else "layout_0"
    strides = placed(call.shapes[0], call.levels.get(varies, "contiguous")).strides[1:]
    extents = _extents(call)
    flat = call.direction != "vjp" and call.levels.get("regime_0") == "constant"
    return not flat and any(s > 0 and n > 1 for s, n in zip(strides, extents, strict=True))


def _of(shape: Callable[[int], Shape], groups: int) -> Callable[[Op, int], Signature]:
    return lambda op, n: _made(shape(n), groups, **required(op))


GROWTHS = (
    Growth("entries", _of(lambda n: (2, 4, n), 2), 2**12, 1_371),
    Growth("channels", _of(lambda n: (3, 2 * n), 2), 2**16, 4_099),
    Growth("rows", _of(lambda n: (-(-n // 2), 4, 3), 2), MANY_ROWS, 2_731),
    Growth("both", _of(lambda n: (2, n, 7), 1), 9_377, 2_731),
    Growth("entries", _of(lambda n: (3, 4, n), 2), 2**10, 2**10, ("offset",)),
)

GROUPS = Family(
    name="groups",
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
    shows=(a_group_has_two_entries, entries_of_a_group_differ),
)
