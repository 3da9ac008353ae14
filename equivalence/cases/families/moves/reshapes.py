"""Ops that keep the entries in their order and give them another shape."""

from __future__ import annotations

import math

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
    everything,
    varied,
)
from equivalence.cases.families.growing import MANY_ROWS, Growth, grown, grows
from equivalence.cases.families.moves.placed import PLACED, one_number_moves_nowhere
from equivalence.cases.families.shapes import around, place_is_its_own, shape
from equivalence.cases.families.signatures import Draw, Shape, Signature, always
from spec.op import Op

RESHAPED: Factors = {
    **PLACED,
    "target": ("flat", "reversed", "halved", "ones", "merged", "same", "reversed ones"),
}


def a_target_has_room(rank: int, target: str) -> bool:
    """Axes merge where there are two, and are in another order where there are two."""
    return rank > 1 or target not in ("merged", "reversed", "reversed ones")


def _call(op: Op, direction: str, levels: Levels) -> Signature:
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


def _divisor(draw: Draw, number: int) -> int:
    found: int = draw(st.sampled_from([d for d in range(1, number + 1) if number % d == 0]))
    return found


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    size = math.prod(own)
    first = _divisor(draw, size)
    second = _divisor(draw, size // first)
    target = (first, second, size // first // second)
    kept = tuple(n for n in target if n > 1) if draw(st.booleans()) else target
    return (own,), {"shape": kept}


def _small(draw: Draw, op: Op) -> Signature:
    source = draw(SHAPES)
    total = math.prod(source)
    targets: list[Shape] = [(total,), (1, total), tuple(reversed(source)), (*source, 1)]
    targets += [(n, total // n) for n in (2, 3) if total % n == 0]
    targets += [()] if total == 1 else []
    return (source,), {"shape": draw(st.sampled_from(targets))}


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], everything)
    if x is None:
        return None
    size = math.prod(offer.shapes[x])
    shapes = [(size,), (1, size), (size, 1), tuple(reversed(offer.shapes[x]))]
    return (x,), {"shape": shapes[picks[1] % len(shapes)]}


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.matrix()], {"shape": (sampler.columns, sampler.rows)}


GROWTHS = (
    Growth("rows", grown(lambda n: ((n, 16),), lambda n: {"shape": (16, n)}), MANY_ROWS, 2_731),
    Growth("elements", grown(lambda n: ((4 * n,),), lambda n: {"shape": (n, 4)}), 2**20, 8_201),
)

RESHAPES = Family(
    name="reshapes",
    factors=varied(RESHAPED),
    rules=(place_is_its_own, a_target_has_room),
    call=_call,
    empty=always((((0, 3),), {"shape": (2, 0)}), (((),), {"shape": (1, 1)})),
    draw=_draw,
    small=_small,
    growths=grows(*GROWTHS),
    operands=_operands,
    sample=_sample,
    shows=(one_number_moves_nowhere,),
)
