"""Ops that act on rows: along one axis, or along the last one with a parameter per column."""

from __future__ import annotations

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.families.family import (
    FACTOR,
    Draw,
    Factors,
    Family,
    Levels,
    Offer,
    Operands,
    Picks,
    Shape,
    Signature,
    calls,
    named_axis,
    shape,
    signature_of,
)
from spec.op import Op

ALONG: tuple[Signature, ...] = (
    (((9, 33),), {"axis": -1}),
    (((3, 257),), {"axis": -1}),
    (((2, 5, 9),), {"axis": 1}),
    (((2, 65),), {"axis": 1}),
    (((8, 1),), {"axis": -1}),
    (((4, 31),), {"axis": 0}),
    (((3, 32),), {"axis": 1}),
    (((33, 3),), {"axis": 0}),
    (((2, 128),), {"axis": -1}),
    (((129,),), {"axis": 0}),
    (((2, 3, 2, 5),), {"axis": 2}),
    (((1, 1025),), {"axis": 1}),
)


def _nothing_along(op: Op) -> tuple[Signature, ...]:
    return (((2, 0),), {"axis": -1}), (((0, 2),), {"axis": 1})


def _draw_along(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 200, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    return (own,), {"axis": named_axis(draw, axis, len(own))}


def _operands_along(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    x = offer.entry(picks[0], bool)
    return None if x is None else ((x,), {"axis": -1})


NORMED: tuple[Shape, ...] = (
    (9, 33),
    (3, 257),
    (2, 5, 9),
    (4, 65),
    (8, 1),
    (3, 31),
    (5, 32),
    (2, 64),
    (129,),
    (65, 3),
    (2, 2, 2, 8),
    (1, 1025),
)
EPSILONS = (None, None, None, None, None, 1e-3, None, 1e-8, None, None, 1.0, None)
"""None is the default of the op."""


def _factors(op: Op) -> Factors:
    return {"shape": NORMED, "eps": EPSILONS}


def _with_parameters(op: Op, own: Shape) -> tuple[Shape, ...]:
    """Return the shapes of x and of its parameters, one entry a column."""
    return (own, *(own[-1:] for _ in op.inputs[1:]))


def _normed(op: Op, levels: Levels) -> Signature:
    eps = levels["eps"]
    return _with_parameters(op, levels["shape"]), {} if eps is None else {"eps": eps}


def _nothing_normed(op: Op) -> tuple[Signature, ...]:
    return (_with_parameters(op, (0, 3)), {}), (_with_parameters(op, (2, 0)), {})


def _draw_normed(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 160, max_rank=3)
    eps: float = draw(st.sampled_from((1e-5, 1e-3, 1.0, 1e-8)))
    return _with_parameters(op, own), {"eps": eps}


def _operands_normed(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Let eps be so large that a constant row sends no large gradient back."""
    x = offer.entry(picks[0], bool, FACTOR)
    if x is None:
        return None
    columns = offer.shapes[x][-1:]
    found = [offer.entry(pick, columns.__eq__, FACTOR) for pick in picks[1:]]
    parameters = [found[k % len(found)] for k in range(len(op.inputs) - 1)]
    return None if None in parameters else ((x, *parameters), {"eps": 1.0})


ROWS = Family("rows", calls(*ALONG), signature_of, _nothing_along, _draw_along, _operands_along)
NORMS = Family("norms", _factors, _normed, _nothing_normed, _draw_normed, _operands_normed)
