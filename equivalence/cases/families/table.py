"""The table of the families, and which of them an op belongs to."""

from __future__ import annotations

from functools import cache

from equivalence.cases.families.elementwise import ELEMENTWISE
from equivalence.cases.families.family import Family
from equivalence.cases.families.gathers import CLASSES, LOOKUPS, PICKS, SCATTERS, TAKES
from equivalence.cases.families.losses import DISTANCES, SCORES, TRIPLETS
from equivalence.cases.families.moves import BROADCASTS, FLATTENS, FLIPS, PERMUTES, RESHAPES
from equivalence.cases.families.parts import CONCATS, PADS, SLICES, STACKS, TRIANGLES
from equivalence.cases.families.products import LINEAR, PRODUCTS
from equivalence.cases.families.random import RANDOM
from equivalence.cases.families.reductions import POSITIONS, REDUCTIONS
from equivalence.cases.families.rows import NORMS, ROWS
from spec.op import Op

FAMILIES: tuple[Family, ...] = (
    FLIPS,
    ELEMENTWISE,
    RANDOM,
    REDUCTIONS,
    POSITIONS,
    NORMS,
    BROADCASTS,
    RESHAPES,
    FLATTENS,
    PERMUTES,
    PADS,
    SLICES,
    CONCATS,
    STACKS,
    TRIANGLES,
    ROWS,
    TAKES,
    PICKS,
    LOOKUPS,
    CLASSES,
    SCATTERS,
    PRODUCTS,
    LINEAR,
    DISTANCES,
    TRIPLETS,
    SCORES,
)
"""The families, in the order in which an op is offered to them: the first that takes it has it."""


class NoFamily(LookupError):
    """No family calls an op as its page wants to be called; the message says what to do."""


@cache
def family_of(op: Op) -> Family:
    """Return the first family that takes an op, as its record tells."""
    for family in FAMILIES:
        if family.takes(op):
            return family
    raise NoFamily(
        f"no family of equivalence/cases/families takes {op.name}: its type rule refuses some "
        f"stratum of each of {', '.join(family.name for family in FAMILIES)}; add a family "
        "whose strata it accepts"
    )
