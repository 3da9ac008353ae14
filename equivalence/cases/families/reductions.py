"""Ops that reduce axes of one input."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.families.family import (
    Draw,
    Family,
    Offer,
    Operands,
    Picks,
    Signature,
    always,
    calls,
    has_elements,
    named_axis,
    shape,
    signature_of,
)
from spec.op import Op

REDUCED: tuple[Signature, ...] = (
    (((9, 257),), {"axes": (1,)}),
    (((33, 9),), {"axes": (0,), "keepdims": True}),
    (((3, 7, 4),), {"axes": (1,)}),
    (((65, 8),), {"axes": (0,)}),
    (((8, 1),), {"axes": (-1,)}),
    (((4, 5, 3, 3),), {"axes": (1, -1)}),
    (((16, 31),), {"axes": (-1,), "keepdims": True}),
    (((9, 32),), {"axes": (1,)}),
    (((8, 33),), {"axes": (1,)}),
    (((3, 129, 3),), {"axes": (1,)}),
    (((2, 4, 64),), {"axes": (2,)}),
    (((8, 3),), {"axes": ()}),
    (((7, 43),), {"axes": None}),
    (((5, 1025),), {"axes": None, "keepdims": True}),
)

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
    axes = tuple(named_axis(draw, k, rank) for k, (_, reduced) in enumerate(mixed) if reduced)
    attrs: dict[str, Any] = {"axes": axes, "keepdims": draw(st.booleans())}
    if direction == "vjp" and draw(st.integers(0, 4)) == 4:
        attrs["axes"] = None
    return (tuple(n for n, _ in mixed),), attrs


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], has_elements)
    if x is None:
        return None
    rank = len(offer.shapes[x])
    axes = None if not rank or picks[1] % 3 == 0 else (picks[1] % rank,)
    return (x,), {"axes": axes, "keepdims": bool(picks[2] % 2)}


REDUCTIONS = Family("reductions", calls(*REDUCED), signature_of, always(*NOTHING), _draw, _operands)
