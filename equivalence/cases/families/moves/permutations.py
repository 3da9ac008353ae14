"""Ops that put the axes in another order."""

from __future__ import annotations

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import SHAPES
from equivalence.cases.families.family import (
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    is_matrix,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Growth, grown, grows
from equivalence.cases.families.moves.placed import PLACED, one_number_moves_nowhere
from equivalence.cases.families.shapes import NAMES, around, named_axis, place_is_its_own, shape
from equivalence.cases.families.signatures import Draw, Signature, always
from spec.op import Op

PERMUTED: Factors = {
    **PLACED,
    "order": ("reversed", "kept", "swapped", "led", "rotated", "rolled"),
    "name": (*NAMES, "mixed"),
}


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


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, _ = around(levels)
    order = _ordered(len(own), levels["order"])
    backwards = {"positive": (), "negative": order, "mixed": order[::2]}[levels["name"]]
    return (own,), {"axes": tuple(k - len(own) if k in backwards else k for k in order)}


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    order: list[int] = draw(st.permutations(range(len(own))))
    return (own,), {"axes": tuple(named_axis(draw, k, len(own)) for k in order)}


def _small(draw: Draw, op: Op) -> Signature:
    source = draw(SHAPES)
    rank = len(source)
    order: list[int] = draw(st.permutations(range(rank)))
    return (source,), {"axes": tuple(k - rank if draw(st.booleans()) else k for k in order)}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], is_matrix)
    return None if x is None else ((x,), {"axes": (1, 0)})


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix()], {"axes": (1, 0)}


GROWTHS = (
    Growth("rows", grown(lambda n: ((n, 16),), lambda n: {"axes": (1, 0)}), MANY_ROWS, 2_731),
    Growth("middle", grown(lambda n: ((33, n, 31),), lambda n: {"axes": (2, 0, 1)}), 1_025, 33),
    Growth("both", grown(lambda n: ((n, n + 2),), lambda n: {"axes": (1, 0)}), 515, 259),
)

PERMUTES = Family(
    name="permutations",
    factors=varied(PERMUTED),
    rules=(place_is_its_own, an_order_is_its_own, mixed_names_need_two),
    call=_call,
    empty=always((((0, 3),), {"axes": (1, 0)}), (((),), {"axes": ()})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    sample=_sample,
    shows=(one_number_moves_nowhere,),
)
