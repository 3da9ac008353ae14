"""The table of the families, and which of them an op belongs to."""

from __future__ import annotations

from collections.abc import Mapping

from equivalence.cases.families.entries.elementwise import ELEMENTWISE
from equivalence.cases.families.entries.random import RANDOM
from equivalence.cases.families.family import Family
from equivalence.cases.families.indexed.classes import CLASSES
from equivalence.cases.families.indexed.codes import CODES
from equivalence.cases.families.indexed.lookups import LOOKUPS
from equivalence.cases.families.indexed.picks import PICKS
from equivalence.cases.families.indexed.scatters import SCATTERS
from equivalence.cases.families.indexed.takes import TAKES
from equivalence.cases.families.losses.distances import DISTANCES
from equivalence.cases.families.losses.labels import SCORES
from equivalence.cases.families.losses.triplets import TRIPLETS
from equivalence.cases.families.moves.broadcasts import BROADCASTS
from equivalence.cases.families.moves.flattenings import FLATTENS
from equivalence.cases.families.moves.flips import FLIPS
from equivalence.cases.families.moves.permutations import PERMUTES
from equivalence.cases.families.moves.reshapes import RESHAPES
from equivalence.cases.families.parts.concatenations import CONCATS
from equivalence.cases.families.parts.paddings import PADS
from equivalence.cases.families.parts.slices import SLICES
from equivalence.cases.families.parts.stacks import STACKS
from equivalence.cases.families.parts.triangles import TRIANGLES
from equivalence.cases.families.products.batches import BATCHES
from equivalence.cases.families.products.linear_layers import LINEAR
from equivalence.cases.families.products.products import PRODUCTS
from equivalence.cases.families.rows.channels import CHANNELS
from equivalence.cases.families.rows.groups import GROUPS
from equivalence.cases.families.rows.norms import NORMS
from equivalence.cases.families.rows.positions import POSITIONS
from equivalence.cases.families.rows.reductions import REDUCTIONS
from equivalence.cases.families.rows.rows import ROWS
from equivalence.registry import family_named, remembering
from spec.op import Op

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        FLIPS,
        ELEMENTWISE,
        RANDOM,
        REDUCTIONS,
        POSITIONS,
        NORMS,
        GROUPS,
        CHANNELS,
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
        BATCHES,
        LINEAR,
        DISTANCES,
        TRIPLETS,
        SCORES,
        CODES,
    )
}
"""The families by name, in the order in which an op is offered to them: the first that takes it has
it."""


class NoFamily(LookupError):
    """No family calls an op as its page wants to be called; the message says what to do."""


def family_of(op: Op) -> Family:
    """Return the family that was named for an op, or the first that takes it; else NoFamily.

    One takes it throughout or in part, as its record tells.
    """
    return _family(op, family_named(op))


@remembering
def _family(op: Op, named: str | None) -> Family:
    if named is not None:
        if named not in FAMILIES:
            raise NoFamily(
                f"{op.name} is registered with the family {named!r}, which there is not; "
                f"there are {', '.join(FAMILIES)}"
            )
        return FAMILIES[named]
    for family in FAMILIES.values():
        if family.takes(op) or family.takes_in_part(op):
            return family
    raise NoFamily(
        f"no family of equivalence/cases/families takes {op.name}: its type rule refuses some "
        f"level of each of {', '.join(FAMILIES)}; name one of them where the page is registered "
        "(family=...), or add a family whose strata it accepts"
    )
