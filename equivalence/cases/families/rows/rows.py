"""Ops that act on rows along one axis, with masks beside them or without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import domain, usual
from equivalence.cases.families.exactly import WITH_AXES, an_axis
from equivalence.cases.families.family import (
    FEW,
    TERM,
    Call,
    Family,
    Offer,
    Operands,
    Picks,
    Sample,
    Sampler,
    has_elements,
)
from equivalence.cases.families.growing import MANY_ROWS, SPREAD, WHOLE, Bearing, Growth, fixed
from equivalence.cases.families.rows.along import (
    MOST_ALONG,
    a_row_has_two_entries,
    entries_of_a_row_differ,
)
from equivalence.cases.families.shapes import (
    BESIDE,
    NAMES,
    PLACES,
    RANKS,
    around,
    many_lie_beside_short_ones,
    named,
    named_axis,
    one_entry_leads_where_the_other_axis_does_not,
    place_is_its_own,
    shape,
)
from equivalence.cases.families.signatures import Draw, Shape, Signature, chosen, required
from spec.op import Op

ALONG: Factors = {
    "rank": RANKS,
    "place": PLACES,
    "extent": (33, 1, 2, 8, 31, 64, 65, 128, 257, 513, 1025),
    "rows": BESIDE,
    "name": NAMES,
}


def _factors(op: Op) -> Factors:
    return {**ALONG, **op.tried}


def _with_masks(op: Op, own: Shape) -> tuple[Shape, ...]:
    """Return the shapes of x and of the masks beside it."""
    return (own,) * (1 + len(op.mask_inputs))


def _call(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels, MOST_ALONG[direction])
    tried = {name: levels[name] for name in op.tried}
    return _with_masks(op, own), {"axis": named(axis, len(own), levels["name"]), **tried}


def _empty(op: Op) -> tuple[Signature, ...]:
    return (_with_masks(op, (2, 0)), {"axis": -1}), (_with_masks(op, (0, 2)), {"axis": 1})


def _draw(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 200, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    tried = chosen(draw, op)
    return _with_masks(op, own), {"axis": named_axis(draw, axis, len(own)), **tried}


def _small(draw: Draw, op: Op) -> Signature:
    own = draw(WITH_AXES)
    return _with_masks(op, own), {"axis": an_axis(draw, len(own)), **chosen(draw, op)}


def _has_rows(shape: Shape) -> bool:
    """Say whether there is an axis, and something along it."""
    return bool(shape) and has_elements(shape)


def _operands(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    where = domain(op, 0)
    # A list of no truth values does not say that it is one.
    fits = _has_rows if op.mask_inputs else bool
    x = offer.entry(picks[0], fits, FEW if where == "factors" else TERM, where)
    if x is None:
        return None
    masks = (offer.mask(picks[1], offer.shapes[x]) for _ in op.mask_inputs)
    return (x, *masks), {"axis": -1}


def something_passes(call: Call) -> bool:
    """Rows that are masked throughout show nothing."""
    return call.levels.get("regime_1") != "all_false"


def _sample(sampler: Sampler, op: Op) -> Sample:
    return [sampler.entries(op, k) for k in range(len(op.inputs))], {"axis": -1, **usual(op)}


def _in_rows(shape: Callable[[int], Shape], axis: int) -> Callable[[Op, int], Signature]:
    return lambda op, n: (_with_masks(op, shape(n)), {**required(op), "axis": axis})


GROWTHS = (
    Growth("columns", _in_rows(lambda n: (8, n), 1), 2**17, 8_201),
    Growth("rows", _in_rows(lambda n: (n, 9), -1), MANY_ROWS, 2_731),
    Growth("outer", _in_rows(lambda n: (n, 65), 0), 4_099, 515),
    Growth("both", _in_rows(lambda n: (n, 3, n + 2), 1), 259, 131),
)


def _running(*outer: str, ways: Sequence[Mapping[str, Any]] = ({},)) -> tuple[Growth, ...]:
    """Return how what adds or multiplies along a row grows: no reals where a row is long."""
    return (
        *(
            Growth("columns", fixed(lambda n: ((8, n),), axis=1, **way), 2**17, 2**13, WHOLE)
            for way in ways
        ),
        Growth("rows", fixed(lambda n: ((n, 9),), axis=-1), MANY_ROWS, 2_731),
        Growth("outer", fixed(lambda n: ((n, 65),), axis=0), 4_099, 515, outer),
        Growth("elements", fixed(lambda n: ((n,),), axis=0), 2**20, 2**15, WHOLE),
        Growth("both", fixed(lambda n: ((n, 3, n + 2),), axis=1), 259, 131),
    )


@cache
def _growths(op: Op) -> tuple[Growth, ...]:
    """Let a scan grow with each of its attributes in turn, and a product of factors as it is."""
    if op.kind == "linear":
        ways = ({name: other} for name, (_, *others) in op.tried.items() for other in others[:1])
        return _running(*WHOLE, *SPREAD, ways=({}, *ways))
    return _running(*WHOLE) if _multiplies(op) else GROWTHS


def _multiplies(op: Op) -> bool:
    return domain(op, 0) == "factors"


def _most(op: Op, k: int, exponent: int) -> int | None:
    return 3 if op.kind == "linear" else None


ROWS = Family(
    name="rows",
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
    growths=_growths,
    bearing=Bearing(most=_most, spread=lambda op, k: 4.0, carried=_multiplies),
    operands=_operands,
    sample=_sample,
    shows=(a_row_has_two_entries, entries_of_a_row_differ, something_passes),
)
