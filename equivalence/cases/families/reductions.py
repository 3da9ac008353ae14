"""Ops that reduce axes of one input."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import domain
from equivalence.cases.families.family import (
    BESIDE,
    FEW,
    NAMES,
    PLACES,
    RANKS,
    TERM,
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
    named,
    named_axis,
    one_entry_leads_where_the_other_axis_does_not,
    place_is_its_own,
    shape,
)
from spec.op import Op

FACTORS: Factors = {
    "rank": RANKS,
    "place": PLACES,
    "extent": (33, 1, 2, 8, 31, 64, 65, 128, 257, 513, 1025),
    "rows": BESIDE,
    "reduced": ("long", "others", "pair", "all", "default", "none"),
    "order": ("ascending", "descending"),
    "name": (*NAMES, "mixed"),
    "keepdims": (False, True),
}
"""The axes that go: the long one, all but it, it and another, all by their names or by default."""


def _factors(op: Op) -> Factors:
    return {**FACTORS, **op.tried}


def _count(rank: int, reduced: str) -> int:
    """Return how many axes are named."""
    return {"long": 1, "others": rank - 1, "pair": 2, "all": rank}.get(reduced, 0)


def so_many_axes_are_another_set(rank: int, reduced: str) -> bool:
    """One, a pair and the others are sets of their own only where there are enough axes."""
    return rank >= {"long": 2, "others": 2, "pair": 3}.get(reduced, 1)


def one_axis_has_no_order(rank: int, reduced: str, order: str) -> bool:
    """An order needs two axes to be named."""
    return order == "ascending" or _count(rank, reduced) > 1


def so_few_axes_have_no_such_names(rank: int, reduced: str, name: str) -> bool:
    """A name needs an axis, and mixed names need two."""
    return _count(rank, reduced) >= {"negative": 1, "mixed": 2}.get(name, 0)


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    """Reduce some axes; a value is counted by the entries that stay."""
    own, axis = around(levels, *((2100, ENOUGH) if direction == "value" else ()))
    rank, reduced = len(own), levels["reduced"]
    chosen: dict[str, list[int]] = {
        "long": [axis],
        "others": [k for k in range(rank) if k != axis],
        "pair": sorted({axis, (axis + 1) % rank}),
        "all": list(range(rank)),
    }
    attrs: dict[str, Any] = {"keepdims": levels["keepdims"]}
    attrs |= {name: levels[name] for name in op.tried}
    if reduced == "default":
        return (own,), attrs
    axes = chosen.get(reduced, [])[:: -1 if levels["order"] == "descending" else 1]
    backwards = {"positive": (), "negative": axes, "mixed": axes[::2]}[levels["name"]]
    attrs["axes"] = tuple(k - rank if k in backwards else k for k in axes)
    return (own,), attrs


NOTHING: tuple[Signature, ...] = (
    (((2, 0),), {"axes": (1,)}),
    (((0, 3),), {"axes": None}),
    (((0, 3),), {"axes": (1,)}),
    (((),), {}),
)


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw the axes that stay, then insert the ones that are reduced away."""
    kept = [(n, False) for n in shape(draw, ENOUGH, 24, max_rank=2)]
    lost = [(n, True) for n in shape(draw, 1, 64, max_rank=2)]
    mixed: list[tuple[int, bool]] = draw(st.permutations(kept + lost))
    rank = len(mixed)
    order: list[int] = draw(st.permutations([k for k, (_, goes) in enumerate(mixed) if goes]))
    axes = tuple(named_axis(draw, k, rank) for k in order)
    attrs: dict[str, Any] = {"axes": axes, "keepdims": draw(st.booleans())}
    attrs |= {name: draw(st.sampled_from(among)) for name, among in op.tried.items()}
    if direction == "vjp" and draw(st.integers(0, 4)) == 4:
        attrs["axes"] = None
    return (tuple(n for n, _ in mixed),), attrs


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    where = domain(op, 0)
    x = offer.entry(picks[0], has_elements, FEW if where == "factors" else TERM, where)
    if x is None:
        return None
    axis = _axis_of(offer.shapes[x], picks)
    axes = None if axis is None else (axis,)
    return (x,), {"axes": axes, "keepdims": bool(picks[2] % 2)}


def _axis_of(found: Shape, picks: Picks) -> int | None:
    """Pick one axis, or none, which means all."""
    rank = len(found)
    return None if not rank or picks[1] % 3 == 0 else picks[1] % rank


PLACED: Factors = {
    **{name: FACTORS[name] for name in ("rank", "place", "extent", "rows", "keepdims")},
    "name": (*NAMES, "none"),
}
"""The axis along which a place is found, or none: all entries in their order."""


def _placed(op: Op, direction: str, levels: Levels) -> Signature:
    """Find places along an axis; a value is counted by the slices beside it."""
    own, axis = around(levels, 2100, ENOUGH)
    at = None if levels["name"] == "none" else named(axis, len(own), levels["name"])
    return (own,), {"axis": at, "keepdims": levels["keepdims"]}


def _draw_placed(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 128, min_rank=1, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    length = extent(draw, 64)
    at = draw(st.sampled_from([None, named_axis(draw, axis, len(own) + 1)]))
    whole = (*own[:axis], length, *own[axis:])
    return (whole,), {"axis": at, "keepdims": draw(st.booleans())}


def _placed_operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], has_elements)
    if x is None:
        return None
    return (x,), {"axis": _axis_of(offer.shapes[x], picks), "keepdims": bool(picks[2] % 2)}


EVEN = ("sum", "mean")
"""The ops that give the same share of a cotangent to each entry."""


def gradients_of_one_result_differ(call: Call) -> bool:
    """What is spread evenly over all entries is the same everywhere."""
    lone = call.direction == "vjp" and math.prod(call.result) == 1
    return not lone or call.op.name not in EVEN


REDUCTIONS = Family(
    "reductions",
    _factors,
    (
        place_is_its_own,
        many_lie_beside_short_ones,
        one_entry_leads_where_the_other_axis_does_not,
        so_many_axes_are_another_set,
        one_axis_has_no_order,
        so_few_axes_have_no_such_names,
    ),
    _call,
    always(*NOTHING),
    _draw,
    _operands,
    (gradients_of_one_result_differ,),
)

POSITIONS = Family(
    "positions",
    lambda op: PLACED,
    (
        place_is_its_own,
        many_lie_beside_short_ones,
        one_entry_leads_where_the_other_axis_does_not,
    ),
    _placed,
    always((((0, 3),), {"axis": 1}), (((),), {}), (((1, 1),), {"keepdims": True})),
    _draw_placed,
    _placed_operands,
)
