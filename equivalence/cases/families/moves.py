"""Ops that move data: every entry of the result is one of the inputs'."""

from __future__ import annotations

import math
from collections.abc import Callable

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.family import (
    NAMES,
    PLACES,
    RANKS,
    Call,
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Signature,
    always,
    around,
    everything,
    extent,
    is_matrix,
    named_axis,
    place_is_its_own,
    shape,
)
from equivalence.cases.guard import core_shape
from spec.op import Op

PLACED: Factors = {
    "rank": RANKS,
    "place": PLACES,
    "extent": (33, 1, 2, 8, 9, 31, 64, 65, 128, 257, 1025),
}

BROADCAST: Factors = {
    **PLACED,
    "repeated": ("long", "others", "ends", "all", "none"),
    "leading": (0, 1, 2),
}
"""The axes that are repeated, and how many of the result's first axes the input lacks."""

RESHAPED: Factors = {
    **PLACED,
    "target": ("flat", "reversed", "halved", "ones", "merged", "same", "reversed ones"),
}

PERMUTED: Factors = {
    **PLACED,
    "order": ("reversed", "kept", "swapped", "led", "rotated", "rolled"),
    "name": (*NAMES, "mixed"),
}


FLIPPED: Factors = {
    **PLACED,
    "turned": ("one", "others", "all", "ends", "none"),
    "name": (*NAMES, "mixed"),
}
"""The axes that are reversed, and how they are named."""

FLATTENED: Factors = {
    **PLACED,
    "span": ("all", "first", "last", "inner", "one"),
    "name": (*NAMES, "mixed"),
}
"""Which axes become one, and how the ends are named: mixed, as the defaults are."""


def varied(factors: Factors) -> Callable[[Op], Factors]:
    return lambda op: factors


def axes_of_one_are_repeated(extent: int, repeated: str) -> bool:
    """A long axis of one entry is not repeated."""
    return extent > 1 or repeated != "long"


def other_axes_are_there(rank: int, repeated: str) -> bool:
    """Other axes need a second one, and two ends a third."""
    return rank >= {"others": 2, "ends": 3}.get(repeated, 1)


def _broadcast_call(op: Op, direction: str, levels: Levels) -> Signature:
    target, axis = around(levels)
    rank = len(target)
    repeated = {
        "long": {axis},
        "others": set(range(rank)) - {axis},
        "ends": {0, rank - 1},
        "all": set(range(rank)),
        "none": set[int](),
    }[levels["repeated"]]
    own = tuple(1 if k in repeated else n for k, n in enumerate(target))
    lacking = (1, 2)[: levels["leading"]] if math.prod(target) < 600 else (1,) * levels["leading"]
    return (own,), {"shape": (*lacking[::-1], *target)}


def a_target_has_room(rank: int, target: str) -> bool:
    """Axes merge where there are two, and are in another order where there are two."""
    return rank > 1 or target not in ("merged", "reversed", "reversed ones")


def _reshape_call(op: Op, direction: str, levels: Levels) -> Signature:
    own, _ = around(levels)
    size, target = math.prod(own), levels["target"]
    least = next((d for d in range(2, size + 1) if size % d == 0), 1)
    targets = {
        "flat": (size,),
        "reversed": own[::-1],
        "halved": (least, size // least),
        "ones": (1, *own, 1),
        "merged": (math.prod(own[:2]), *own[2:]),
        "same": own,
        "reversed ones": (*own[:0:-1], 1, own[0]),
    }
    return (own,), {"shape": targets[target]}


def _ordered(rank: int, order: str) -> list[int]:
    axes = list(range(rank))
    orders = {
        "reversed": axes[::-1],
        "swapped": [*axes[:-2], *axes[-2:][::-1]],
        "led": [*axes[:2][::-1], *axes[2:]],
        "rotated": [*axes[1:], *axes[:1]],
        "rolled": [*axes[-1:], *axes[:-1]],
    }
    return orders.get(order, axes)


def an_order_is_its_own(rank: int, order: str) -> bool:
    """Few axes have few orders."""
    among: tuple[str, ...] = tuple(PERMUTED["order"])
    before = (_ordered(rank, other) for other in among[: among.index(order)])
    return _ordered(rank, order) not in before


def mixed_names_need_two(rank: int, name: str) -> bool:
    """One axis is named in one way."""
    return rank > 1 or name != "mixed"


def _permute_call(op: Op, direction: str, levels: Levels) -> Signature:
    own, _ = around(levels)
    order = _ordered(len(own), levels["order"])
    backwards = {"positive": (), "negative": order, "mixed": order[::2]}[levels["name"]]
    return (own,), {"axes": tuple(k - len(own) if k in backwards else k for k in order)}


def _turned(rank: int, axis: int, turned: str) -> list[int]:
    others = [k for k in range(rank) if k != axis]
    every = list(range(rank))
    return {"one": [axis], "others": others, "all": every, "ends": [0, rank - 1], "none": []}[
        turned
    ]


def the_turned_axes_are_their_own(rank: int, place: str, extent: int, turned: str) -> bool:
    """All of one axis are that one, and what is reversed has two entries."""
    least = {"others": 2, "all": 2, "ends": 3}.get(turned, 1)
    if turned == "ends" and place != "middle":
        return False
    return rank >= least and (extent > 1 or turned != "one")


def names_need_axes(rank: int, turned: str, name: str) -> bool:
    """No axis has no name, and two names need two axes."""
    count = {"one": 1, "others": rank - 1, "all": rank, "ends": 2, "none": 0}[turned]
    return count > {"positive": -1, "negative": 0, "mixed": 1}[name]


def _flip_call(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels)
    turned = _turned(len(own), axis, levels["turned"])
    backwards = {"positive": (), "negative": turned, "mixed": turned[::2]}[levels["name"]]
    return (own,), {"axes": tuple(k - len(own) if k in backwards else k for k in turned)}


def a_span_is_its_own(rank: int, span: str) -> bool:
    """Fewer than all axes need others."""
    return rank >= {"all": 1, "first": 3, "last": 3, "inner": 4, "one": 2}[span]


def _flatten_call(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels)
    end = len(own) - 1
    start, last = {
        "all": (0, end), "first": (0, end - 1), "last": (1, end), "inner": (1, end - 1),
        "one": (axis, axis),
    }[levels["span"]]  # fmt: skip
    back = {"positive": (0, 0), "negative": (1, 1), "mixed": (0, 1)}[levels["name"]]
    return (own,), {"start": start - back[0] * len(own), "end": last - back[1] * len(own)}


def one_number_moves_nowhere(call: Call) -> bool:
    """Where all entries are one number, its copies are equal."""
    one = math.prod(core_shape(call.shapes[0], call.levels.get("layout_0", "contiguous"))) == 1
    return call.direction != "value" or len(call.shapes) > 1 or not one


def _draw_broadcast(draw: Draw, op: Op, direction: str) -> Signature:
    own = list(shape(draw, ENOUGH, 32, max_rank=2))
    own.insert(draw(st.integers(0, len(own))), 1)
    target = [extent(draw, 9) if n == 1 else n for n in own]
    lead = shape(draw, 1, 4, max_rank=1)
    return (tuple(own),), {"shape": (*lead, *target)}


def _broadcast(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], lambda shape: math.prod(shape) <= 3)
    if x is None:
        return None
    shape = tuple(2 if n == 1 else n for n in offer.shapes[x])
    return (x,), {"shape": (2, *shape) if picks[1] % 2 or shape == offer.shapes[x] else shape}


def _divisor(draw: Draw, number: int) -> int:
    found: int = draw(st.sampled_from([d for d in range(1, number + 1) if number % d == 0]))
    return found


def _draw_reshape(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    size = math.prod(own)
    first = _divisor(draw, size)
    second = _divisor(draw, size // first)
    target = (first, second, size // first // second)
    kept = tuple(n for n in target if n > 1) if draw(st.booleans()) else target
    return (own,), {"shape": kept}


def _reshape(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], everything)
    if x is None:
        return None
    size = math.prod(offer.shapes[x])
    shapes = [(size,), (1, size), (size, 1), tuple(reversed(offer.shapes[x]))]
    return (x,), {"shape": shapes[picks[1] % len(shapes)]}


def _draw_permute(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    order: list[int] = draw(st.permutations(range(len(own))))
    return (own,), {"axes": tuple(named_axis(draw, k, len(own)) for k in order)}


def _permute(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], is_matrix)
    return None if x is None else ((x,), {"axes": (1, 0)})


def _draw_flip(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    turned: set[int] = draw(st.sets(st.sampled_from(range(len(own)))))
    return (own,), {"axes": tuple(named_axis(draw, k, len(own)) for k in turned)}


def _flip(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], everything)
    if x is None:
        return None
    axes = [None, (), *((k,) for k in range(len(offer.shapes[x])))]
    return (x,), {"axes": axes[picks[1] % len(axes)]}


def _draw_flatten(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    ends = sorted(draw(st.integers(0, len(own) - 1)) for _ in range(2))
    start, end = (named_axis(draw, k, len(own)) for k in ends)
    return (own,), {"start": start, "end": end}


def _flatten(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], everything)
    return None if x is None else ((x,), {"end": -1 if picks[1] % 2 else 0})


BROADCASTS = Family(
    "broadcasts",
    varied(BROADCAST),
    (place_is_its_own, axes_of_one_are_repeated, other_axes_are_there),
    _broadcast_call,
    always((((1,),), {"shape": (0,)}), (((0, 1),), {"shape": (2, 0, 3)})),
    _draw_broadcast,
    _broadcast,
    (one_number_moves_nowhere,),
)
RESHAPES = Family(
    "reshapes",
    varied(RESHAPED),
    (place_is_its_own, a_target_has_room),
    _reshape_call,
    always((((0, 3),), {"shape": (2, 0)}), (((),), {"shape": (1, 1)})),
    _draw_reshape,
    _reshape,
    (one_number_moves_nowhere,),
)
PERMUTES = Family(
    "permutations",
    varied(PERMUTED),
    (place_is_its_own, an_order_is_its_own, mixed_names_need_two),
    _permute_call,
    always((((0, 3),), {"axes": (1, 0)}), (((),), {"axes": ()})),
    _draw_permute,
    _permute,
    (one_number_moves_nowhere,),
)
FLIPS = Family(
    "flips",
    varied(FLIPPED),
    (place_is_its_own, the_turned_axes_are_their_own, names_need_axes),
    _flip_call,
    always((((0, 3),), {"axes": (0, 1)}), (((),), {}), (((1,),), {"axes": (0,)})),
    _draw_flip,
    _flip,
    (one_number_moves_nowhere,),
    keeps_shape=True,
)
FLATTENS = Family(
    "flattenings",
    varied(FLATTENED),
    (place_is_its_own, a_span_is_its_own),
    _flatten_call,
    always((((0, 3),), {}), (((),), {}), (((2, 0, 3),), {"start": 1, "end": 2})),
    _draw_flatten,
    _flatten,
    (one_number_moves_nowhere,),
)
