"""Ops that move data: every entry of the result is one of the inputs'."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.families.family import (
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Shape,
    Signature,
    always,
    calls,
    everything,
    extent,
    is_matrix,
    named_axis,
    shape,
    signature_of,
)
from spec.op import Op

BROADCAST: tuple[Signature, ...] = (
    (((9,),), {"shape": (257, 9)}),
    (((3, 1, 5),), {"shape": (3, 4, 5)}),
    (((8, 1),), {"shape": (8, 33)}),
    (((1, 16),), {"shape": (2, 31, 16)}),
    (((2, 5),), {"shape": (2, 5)}),
    (((1, 1, 9),), {"shape": (3, 4, 9)}),
    (((8, 1, 1),), {"shape": (8, 5, 7)}),
    (((33, 1),), {"shape": (33, 9)}),
    (((4, 1, 3),), {"shape": (2, 4, 65, 3)}),
    (((3, 3),), {"shape": (1, 3, 3)}),
    (((1, 31),), {"shape": (33, 31)}),
    (((2, 1, 2, 2),), {"shape": (2, 4, 2, 2)}),
    (((),), {"shape": (3, 43)}),
    (((1,),), {"shape": (1025,)}),
)

RESHAPED: tuple[Signature, ...] = (
    (((33,),), {"shape": (3, 11)}),
    (((4, 65),), {"shape": (260,)}),
    (((3, 5, 7),), {"shape": (7, 15)}),
    (((1025,),), {"shape": (5, 1, 205)}),
    (((2, 17),), {"shape": (17, 2)}),
    (((6, 4),), {"shape": (2, 3, 4)}),
    (((1, 9),), {"shape": (9, 1)}),
    (((32, 32),), {"shape": (1024,)}),
    (((257, 2),), {"shape": (2, 257)}),
    (((2, 2, 2, 2),), {"shape": (4, 4)}),
    (((8,),), {"shape": (1, 8, 1)}),
    (((5, 31),), {"shape": (31, 5)}),
)

PERMUTED: tuple[Signature, ...] = (
    (((33, 3),), {"axes": (1, 0)}),
    (((4, 65),), {"axes": (-1, 0)}),
    (((3, 5, 7),), {"axes": (2, 0, 1)}),
    (((31, 33),), {"axes": (1, 0)}),
    (((2, 17, 1),), {"axes": (2, 1, 0)}),
    (((9,),), {"axes": (0,)}),
    (((2, 3, 4, 5),), {"axes": (3, 1, 2, 0)}),
    (((257, 2),), {"axes": (0, 1)}),
    (((1, 9),), {"axes": (1, 0)}),
    (((8, 3, 2),), {"axes": (1, 0, 2)}),
    (((32, 32),), {"axes": (1, 0)}),
    (((2, 2, 2, 2),), {"axes": (-1, -2, -3, -4)}),
)

CUT: tuple[Signature, ...] = (
    (((33, 3),), {"axis": 0, "start": 1, "length": 31}),
    (((4, 65),), {"axis": 1, "start": 0, "length": 65}),
    (((3, 5, 7),), {"axis": 1, "start": 2, "length": 3}),
    (((1025,),), {"axis": 0, "start": 1, "length": 1023}),
    (((9, 17),), {"axis": -1, "start": 16, "length": 1}),
    (((31, 9),), {"axis": 0, "start": 30, "length": 1}),
    (((257, 2),), {"axis": -2, "start": 0, "length": 256}),
    (((1, 1, 9),), {"axis": 2, "start": 0, "length": 8}),
    (((5, 32),), {"axis": 1, "start": 8, "length": 16}),
    (((2, 3, 4, 5),), {"axis": 2, "start": 1, "length": 2}),
    (((8, 1),), {"axis": 1, "start": 0, "length": 1}),
    (((2, 1024),), {"axis": 1, "start": 512, "length": 512}),
)

JOINED: tuple[Signature, ...] = (
    (((33,), (9,)), {"axis": 0}),
    (((4, 65), (4, 1)), {"axis": 1}),
    (((3, 5, 7),), {"axis": 1}),
    (((2, 0), (2, 17), (2, 1)), {"axis": -1}),
    (((1025,), (1023,)), {"axis": 0}),
    (((31, 2), (1, 2), (33, 2)), {"axis": 0}),
    (((257, 2), (257, 2)), {"axis": 1}),
    (((1, 1, 9), (1, 0, 9)), {"axis": 1}),
    (((2, 3, 4), (2, 3, 4), (2, 3, 4)), {"axis": -2}),
    (((32, 32),), {"axis": 0}),
    (((2, 2, 2, 2), (2, 2, 1, 2), (2, 2, 3, 2)), {"axis": 2}),
    (((3, 127), (3, 1), (3, 129)), {"axis": 1}),
    (((0, 3), (5, 3), (0, 3)), {"axis": 0}),
)


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


def _draw_slice(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 300)
    axis: int = draw(st.integers(0, len(own) - 1))
    rest = math.prod(own) // own[axis]
    least = 0 if direction == "vjp" else -(-ENOUGH // rest)
    start: int = draw(st.integers(0, own[axis] - least))
    length: int = draw(st.integers(least, own[axis] - start))
    return (own,), {"axis": named_axis(draw, axis, len(own)), "start": start, "length": length}


def _slice(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    if x is None:
        return None
    extent = offer.shapes[x][-1]
    start = picks[1] % (extent + 1)
    return (x,), {"axis": -1, "start": start, "length": picks[2] % (extent - start + 1)}


def _draw_concat(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw an input that counts, and up to two others, which may be empty along the axis."""
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    others = draw(st.lists(st.sampled_from((own[axis], 1, 0, 2, 3)), max_size=2))
    shapes = [(*own[:axis], n, *own[axis + 1 :]) for n in (own[axis], *others)]
    mixed: list[Shape] = draw(st.permutations(shapes))
    return tuple(mixed), {"axis": named_axis(draw, axis, len(own))}


def _concat(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    if x is None:
        return None
    rest = offer.shapes[x][1:]
    y = offer.entry(picks[1], lambda shape: bool(shape) and shape[1:] == rest)
    return ((x, y, x) if picks[2] % 4 == 0 else (x, y)), {"axis": 0}


BROADCASTS = Family(
    "broadcasts",
    calls(*BROADCAST),
    signature_of,
    always((((1,),), {"shape": (0,)}), (((0, 1),), {"shape": (2, 0, 3)})),
    _draw_broadcast,
    _broadcast,
)
RESHAPES = Family(
    "reshapes",
    calls(*RESHAPED),
    signature_of,
    always((((0, 3),), {"shape": (2, 0)}), (((),), {"shape": (1, 1)})),
    _draw_reshape,
    _reshape,
)
PERMUTES = Family(
    "permutations",
    calls(*PERMUTED),
    signature_of,
    always((((0, 3),), {"axes": (1, 0)}), (((),), {"axes": ()})),
    _draw_permute,
    _permute,
)
SLICES = Family(
    "slices",
    calls(*CUT),
    signature_of,
    always(
        (((4, 3),), {"axis": 0, "start": 4, "length": 0}),
        (((0, 3),), {"axis": 0, "start": 0, "length": 0}),
        (((4, 0),), {"axis": 0, "start": 1, "length": 2}),
        (((1,),), {"axis": 0, "start": 0, "length": 1}),
    ),
    _draw_slice,
    _slice,
)
CONCATS = Family(
    "concatenations",
    calls(*JOINED),
    signature_of,
    always(
        (((0,),), {"axis": 0}),
        (((0, 3), (0, 3)), {"axis": 0}),
        (((2, 0), (3, 0)), {"axis": 0}),
        (((0,), (1,)), {"axis": 0}),
    ),
    _draw_concat,
    _concat,
)
