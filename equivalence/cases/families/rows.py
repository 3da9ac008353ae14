"""Ops that act on rows: along one axis, or along the last one with a parameter per column."""

from __future__ import annotations

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.domains import domain
from equivalence.cases.families.family import (
    BESIDE,
    FACTOR,
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
    around,
    has_elements,
    many_lie_beside_short_ones,
    named,
    named_axis,
    one_entry_leads_where_the_other_axis_does_not,
    place_is_its_own,
    shape,
)
from equivalence.cases.guard import place
from spec.op import Op

MOST = {"value": 600, "vjp": 300, "jvp": 300}
"""So many entries, at most, lie in rows with others beside them; derivatives cost more."""

ALONG: Factors = {
    "rank": RANKS,
    "place": PLACES,
    "extent": (33, 1, 2, 8, 31, 64, 65, 128, 257, 513, 1025),
    "rows": BESIDE,
    "name": NAMES,
}


def _factors_along(op: Op) -> Factors:
    return {**ALONG, **op.tried}


def _with_masks(op: Op, own: Shape) -> tuple[Shape, ...]:
    """Return the shapes of x and of the masks beside it."""
    return (own,) * (1 + len(op.mask_inputs))


def _along(op: Op, direction: str, levels: Levels) -> Signature:
    own, axis = around(levels, MOST[direction])
    chosen = {name: levels[name] for name in op.tried}
    return _with_masks(op, own), {"axis": named(axis, len(own), levels["name"]), **chosen}


def a_row_has_two_entries(call: Call) -> bool:
    """A row of one entry is what it is whatever the entry is."""
    axis: int = call.attributes.get("axis", -1)
    return call.shapes[0][axis] > 1


def entries_of_a_row_differ(call: Call) -> bool:
    """Of a row of equal entries the value is known, and the cotangent sends nothing back."""
    axis: int = call.attributes.get("axis", -1)
    varies = "seed_layout" if call.direction == "vjp" else "layout_0"
    strides = place(call.shapes[0], call.levels.get(varies, "contiguous")).strides
    flat = call.direction != "vjp" and call.levels.get("regime_0") == "constant"
    return strides[axis] > 0 and not (flat and axis in (-1, len(call.shapes[0]) - 1))


def _nothing_along(op: Op) -> tuple[Signature, ...]:
    return (_with_masks(op, (2, 0)), {"axis": -1}), (_with_masks(op, (0, 2)), {"axis": 1})


def _draw_along(draw: Draw, op: Op, direction: str) -> Signature:
    own = shape(draw, ENOUGH, 200, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    chosen = {name: draw(st.sampled_from(among)) for name, among in op.tried.items()}
    return _with_masks(op, own), {"axis": named_axis(draw, axis, len(own)), **chosen}


def has_rows(shape: Shape) -> bool:
    """Say whether there is an axis, and something along it."""
    return bool(shape) and has_elements(shape)


def _operands_along(op: Op, offer: Offer, picks: Picks) -> Operands | None:
    where = domain(op, 0)
    # A list of no truth values does not say that it is one.
    fits = has_rows if op.mask_inputs else bool
    x = offer.entry(picks[0], fits, FEW if where == "factors" else TERM, where)
    if x is None:
        return None
    masks = (offer.mask(picks[1], offer.shapes[x]) for _ in op.mask_inputs)
    return (x, *masks), {"axis": -1}


def something_passes(call: Call) -> bool:
    """Rows that are masked throughout show nothing."""
    return call.levels.get("regime_1") != "all_false"


NORMED: Factors = {
    "rank": RANKS,
    "extent": (33, 1, 2, 8, 31, 64, 65, 128, 257, 513, 1025),
    "rows": BESIDE,
    "eps": (None, 1e-3, 1e-8, 1.0),
}
"""An eps of None is the default of the op."""


def _factors(op: Op) -> Factors:
    return NORMED


def _with_parameters(op: Op, own: Shape) -> tuple[Shape, ...]:
    """Return the shapes of x and of its parameters, one entry a column."""
    return (own, *(own[-1:] for _ in op.inputs[1:]))


def _normed(op: Op, direction: str, levels: Levels) -> Signature:
    eps = levels["eps"]
    return _with_parameters(op, around(levels, MOST[direction])[0]), {} if eps is None else {
        "eps": eps
    }


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


ROWS = Family(
    "rows",
    _factors_along,
    (
        place_is_its_own,
        many_lie_beside_short_ones,
        one_entry_leads_where_the_other_axis_does_not,
    ),
    _along,
    _nothing_along,
    _draw_along,
    _operands_along,
    (a_row_has_two_entries, entries_of_a_row_differ, something_passes),
)
NORMS = Family(
    "norms",
    _factors,
    (many_lie_beside_short_ones,),
    _normed,
    _nothing_normed,
    _draw_normed,
    _operands_normed,
    (a_row_has_two_entries, entries_of_a_row_differ),
)
