"""Ops that act entry by entry: on inputs of one shape, which is the result's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import domain, usual
from equivalence.cases.families.exactly import SHAPES
from equivalence.cases.families.family import (
    FACTOR,
    TERM,
    Family,
    Offer,
    Operands,
    Picks,
    everything,
    has_elements,
)
from equivalence.cases.families.growing import MANY_ROWS, Bearing, Growth, at_whole_numbers
from equivalence.cases.families.shapes import PLACES, RANKS, around, place_is_its_own, shape
from equivalence.cases.families.signatures import Draw, Shape, Signature, chosen, results
from equivalence.cases.fills.regimes import EVERY
from spec.op import Op
from spec.tensor import tensor

SIZES: Factors = {
    "rank": (*RANKS, 0),
    "place": PLACES,
    "extent": (33, 1, 7, 8, 9, 31, 64, 65, 127, 257, 1024, 1025),
}
"""Ranks with a long axis somewhere: one entry, and the neighbours of likely tiles."""


def one_entry_has_no_axis(rank: int, extent: int) -> bool:
    """A tensor of no axis has one entry."""
    return rank > 0 or extent == 1


SIZED = (place_is_its_own, one_entry_has_no_axis)

NOTHING: tuple[Shape, ...] = ((3, 0), ())


def alike(op: Op, shape: Shape, levels: Levels | None = None) -> Signature:
    """Return the call of an op whose inputs are all of one shape, with the attributes chosen."""
    attributes = usual(op) if levels is None else {name: levels[name] for name in op.tried}
    return (shape,) * len(op.inputs), attributes


def _factors(op: Op) -> Factors:
    return {**SIZES, **op.tried}


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    return alike(op, around(levels)[0], levels)


def _empty(op: Op) -> tuple[Signature, ...]:
    return tuple(alike(op, nothing) for nothing in NOTHING)


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    levels = chosen(draw, op)
    entries = shape(draw, ENOUGH, 300)
    found = alike(op, entries, levels)
    return alike(op, entries) if results(op, found) is None else found


def _small(draw: Draw, op: Op) -> Signature:
    """Draw one shape for all inputs, and attributes that suit each other."""
    own = draw(SHAPES)
    every = [dict(zip(op.tried, levels, strict=True)) for levels in product(*op.tried.values())]
    accepted = [levels for levels in every if results(op, alike(op, own, levels)) is not None]
    return alike(op, own, draw(st.sampled_from(accepted or every)))


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    """Find entries of one shape, now and then one entry again; for a mask write one."""
    if op.integer_inputs:
        return None
    if op.converts:
        cast = offer.cast(picks[0])
        return None if cast is None else ((cast[0],), {"to": cast[1]})
    nonempty = has_elements if op.index_inputs else everything
    again = picks[2] % 3 == 0
    found: dict[int, int] = {}
    first: Shape | None = None
    for k in range(len(op.inputs)):
        if k in op.index_inputs:
            continue
        fits = nonempty if first is None else first.__eq__
        pick = picks[0] if again else picks[len(found) % 3]
        entry = offer.entry(pick, fits, _most(op), domain(op, k))
        if entry is None:
            return None
        found[k], first = entry, offer.shapes[entry]
    if first is None:
        return None
    inputs = [
        offer.mask(picks[2], first) if k in op.index_inputs else found[k]
        for k in range(len(op.inputs))
    ]
    return tuple(inputs), usual(op)


def _most(op: Op) -> float:
    """Return the largest magnitude for an op: less for what grows faster than a sum."""
    if any(domain(op, k) != "real" for k in range(len(op.inputs))):
        return FACTOR
    large = [tensor(True if k in op.mask_inputs else TERM) for k in range(len(op.inputs))]
    made = op.value(*large, **usual(op)).data
    return TERM if max(map(abs, made)) <= 2 * TERM else FACTOR


def _in_entries(shape: Callable[[int], Shape]) -> Callable[[Op, int], Signature]:
    return lambda op, n: alike(op, shape(n))


ELEMENTS = (
    Growth("elements", _in_entries(lambda n: (n,)), 2**22, 24_601, by_entry=True),
    Growth("rows", _in_entries(lambda n: (n, 9)), MANY_ROWS, 2_731, by_entry=True),
)

ARGUMENTS = Growth("arguments", _in_entries(lambda n: (n,)), 2**20, 2**16, (EVERY,))
"""The arguments of a curve: all that 16 bits have, and 2^20 of a wider format."""


def _growths(op: Op) -> tuple[Growth, ...]:
    return (*ELEMENTS, ARGUMENTS) if len(op.inputs) == 1 else ELEMENTS


def _degree(op: Op) -> int:
    """Return the power with which results grow, and 2, a product's, where it is no larger."""
    if len(op.inputs) != 1 or op.index_inputs or op.converts:
        return 2
    grown = at_whole_numbers(op, 2**8)
    return 2 if grown is None else max(2, (abs(int(grown)).bit_length() - 1) // 8)


def _most_integer(op: Op, k: int, exponent: int) -> int | None:
    """Leave room for powers beyond a square, and for their gradients."""
    return (1 << min(12, exponent // (_degree(op) + 1))) - 1 if _degree(op) > 2 else None


ELEMENTWISE = Family(
    name="elementwise",
    factors=_factors,
    rules=SIZED,
    call=_call,
    empty=_empty,
    draw=_draw,
    small=_small,
    growths=_growths,
    bearing=Bearing(most=_most_integer),
    operands=_operands,
    keeps_shape=True,
)
