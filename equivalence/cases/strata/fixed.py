"""The fixed cases of a row, which are called strata: a covering design, written out as cases.

They are the same in every run. A design of strength 1 holds every level of every factor. A design
of strength 2 also holds every pair of levels that may meet. Shapes are small: the reference in pure
Python needs a few milliseconds for most of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from equivalence.cases.call import CaseSpec, Recipe, attribute_pairs
from equivalence.cases.covering import PAIRS, SINGLES, Levels, owners
from equivalence.cases.declared.inside import Inside
from equivalence.cases.families.meeting import SEEDS, column
from equivalence.cases.families.signatures import Signature
from equivalence.cases.families.table import family_of
from equivalence.cases.strata.added.casts import offered
from equivalence.cases.strata.added.rules import Added, added
from equivalence.cases.strata.rules import Rules, declared_design, design, factors_of
from equivalence.cases.strata.turns import with_regimes
from equivalence.dtypes import DTYPES
from equivalence.registry import OPS
from spec.op import Op

Numbered = tuple[int, Levels]
"""A row of a design with its number."""


def strata(
    op: str,
    direction: str,
    dtype: str,
    strength: int = SINGLES,
    dtypes: Sequence[str] = (),
    inside: Inside | None = None,
) -> list[CaseSpec]:
    """Return the fixed cases of a row. The cases of weaker designs come first.

    dtypes are the dtypes that a backend offers, this one among them. A design of pairs is shared
    out among them: every level meets every dtype, and every pair of levels meets in one dtype.
    inside says which part of the op the backend takes, if not all of it: the design is then that of
    the part. A predicate may say so of one dtype alone, so that its design is not shared out.
    """
    return [case for case, _ in designed(op, direction, dtype, strength, dtypes, inside)]


def designed(
    op: str,
    direction: str,
    dtype: str,
    strength: int = SINGLES,
    dtypes: Sequence[str] = (),
    inside: Inside | None = None,
) -> list[tuple[CaseSpec, Levels]]:
    """Return the fixed cases of a row, each with its levels."""
    among = [name for name in DTYPES if name in dtypes] if dtype in dtypes else [dtype]
    shared = strength == PAIRS and (inside is None or inside.part is not None)
    places = len(among) if shared else 1
    page = OPS[op]
    rows = shared_out(page, direction, strength, places, inside)[among.index(dtype) % places]
    rows = [(number, levels) for number, levels in rows if offered(page, levels, among)]
    cases = [(case_of(op, direction, dtype, levels, number), levels) for number, levels in rows]
    # The design lies inside already; what rules add is chosen for the whole op.
    return [(case, levels) for case, levels in cases if inside is None or inside.takes_case(case)]


def shared_out(
    op: Op, direction: str, strength: int, places: int, inside: Inside | None = None
) -> list[list[Numbered]]:
    """Return the rows of a design that each of several dtypes has."""
    made = design(op, direction) if inside is None else declared_design(op, direction, inside)
    rows, everywhere = made.rows(strength), len(made.rows(SINGLES))
    own = [owners(number, everywhere, places) for number in range(len(rows))]
    cost = Rules(op, direction, inside).cost if strength > SINGLES else None
    found: list[list[Numbered]] = [[] for _ in range(places)]
    for number, (levels, theirs) in enumerate(with_regimes(rows, own, cost)):
        if number == everywhere:
            _deal(added(op, direction, SINGLES), found)
        for place in theirs:
            found[place].append((number, levels))
    if len(rows) == everywhere:
        _deal(added(op, direction, SINGLES), found)
    if strength >= PAIRS:
        _deal(added(op, direction, PAIRS), found)
    return found


def _deal(cases: Sequence[Added], found: list[list[Numbered]]) -> None:
    """Give every place the cases that it needs, and one in turn of the others."""
    turn = 0
    for number, levels, everywhere in cases:
        for place in range(len(found)) if everywhere else (turn % len(found),):
            found[place].append((number, levels))
        turn += not everywhere


def extras(op: str, direction: str, dtype: str, inside: Inside | None = None) -> list[CaseSpec]:
    """Return the cases with no element or one. They run, but do not count towards the row."""
    found = _every_extra(op, direction, dtype)
    return found if inside is None else [case for case in found if inside.takes_case(case)]


def _every_extra(op: str, direction: str, dtype: str) -> list[CaseSpec]:
    page = OPS[op]
    plain = {name: levels[0] for name, levels in factors_of(page, direction).items()}
    plain |= {"seed_regime": "normal"} if direction in SEEDS else {}
    return [
        _with_recipes(op, direction, dtype, signature, plain, number)
        for number, signature in enumerate(family_of(page).extras(page))
    ]


def case_of(op: str, direction: str, dtype: str, levels: Levels, number: int) -> CaseSpec:
    """Return the case of a row of the design. Its number is the seed of its tensors."""
    page = OPS[op]
    signature = family_of(page).call(page, direction, levels)
    return _with_recipes(op, direction, dtype, signature, levels, number)


def _with_recipes(
    op: str,
    direction: str,
    dtype: str,
    signature: Signature,
    levels: Mapping[str, Any],
    number: int,
) -> CaseSpec:
    """Give every tensor of a call its regime and its layout."""
    shapes, attributes = signature
    columns = [column(OPS[op], k) for k in range(len(shapes))]
    recipes = tuple(Recipe(levels[f"regime_{k}"], number, levels[f"layout_{k}"]) for k in columns)
    attrs = attribute_pairs(attributes)
    case = CaseSpec(op, direction, dtype, shapes, recipes, attrs, calling=levels["calling"])
    if direction not in SEEDS:
        return case
    recipe = Recipe(levels["seed_regime"], number, levels["seed_layout"])
    seed: dict[str, Any] = {SEEDS[direction]: recipe}
    return replace(case, **seed)
