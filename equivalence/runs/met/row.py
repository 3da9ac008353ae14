"""What the fixed cases of one op or optimizer meet in all dtypes together, and how that is told.

From the profile `ci` on, the large cases of a row are among them. What is drawn comes on top.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from equivalence.cases.call import TORCH, CaseSpec
from equivalence.cases.covering import PAIRS
from equivalence.cases.declared.inside import all_of
from equivalence.cases.fills.turns import KINDS, SPOTS
from equivalence.cases.strata.fixed import strata
from equivalence.cases.updates.design import update_strata
from equivalence.measure.sizes import near
from equivalence.registry import OPS, OPTIMIZERS
from equivalence.runs.met.extents import (
    CLASSES,
    Pair,
    Square,
    pairs_met,
    squares_met,
    squares_wanted,
)
from equivalence.runs.met.numbers import (
    SIZES,
    Meeting,
    met_by_op,
    met_by_optimizer,
    wanted_of_op,
    wanted_of_optimizer,
)

EVERY_DTYPE = tuple(TORCH)


@dataclass(frozen=True)
class Coverage:
    """What a row's fixed cases meet, and what the rules say that they should.

    cases counts them in all dtypes, among which they are shared out.
    """

    of: str
    direction: str
    cases: int
    numbers: frozenset[Meeting]
    numbers_wanted: frozenset[Meeting]
    pairs: frozenset[Pair] = frozenset()
    squares: frozenset[Square] = frozenset()
    squares_wanted: frozenset[Square] = frozenset()

    def lines(self) -> Iterator[str]:
        """Yield what a reader is told: counts, then what is wanted and not met."""
        yield f"{self.of} {self.direction}: {self.cases} cases"
        each = f"{len(KINDS)} kinds x {len(SPOTS)} places x {len(SIZES)} sizes"
        for tensor in sorted({meeting[0] for meeting in self.numbers_wanted}):
            met, wanted = (
                sum(meeting[0] == tensor for meeting in among)
                for among in (self.numbers & self.numbers_wanted, self.numbers_wanted)
            )
            yield f"  special numbers, {each}, {tensor}: {met} of {wanted}"
        for (tensor, rank, one, other), met in _by_axes(self.pairs):
            where = f"{tensor} of rank {rank}, axes {one} and {other}"
            yield f"  pairs of extents, {where}: {met} of {PAIRS_OF_CLASSES}"
        if self.squares_wanted:
            met = len(self.squares & self.squares_wanted)
            yield f"  squares, by rank, axis and keepdims: {met} of {len(self.squares_wanted)}"
        for meeting in sorted(self.numbers_wanted - self.numbers):
            yield f"  not met: {', '.join(meeting)}"
        for square in sorted(self.squares_wanted - self.squares, key=str):
            yield f"  not met: a square of rank {square[0]}{_along(square)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the same, in full, as JSON carries it."""
        return {
            "of": self.of,
            "direction": self.direction,
            "cases": self.cases,
            "numbers": sorted(map(list, self.numbers)),
            "numbers_not_met": sorted(map(list, self.numbers_wanted - self.numbers)),
            "extents": sorted(map(list, self.pairs)),
            "squares": sorted(map(list, self.squares), key=str),
            "squares_not_met": sorted(map(list, self.squares_wanted - self.squares), key=str),
        }


PAIRS_OF_CLASSES = len(CLASSES) ** 2


def directions_of(name: str) -> tuple[str, ...]:
    """Return the directions in which an op or an optimizer has rows."""
    if name in OPTIMIZERS:
        return ("update",)
    return ("value", "vjp") if OPS[name].moves else ("value",)


def coverage(name: str, direction: str, strength: int) -> Coverage:
    """Return what the fixed cases of a row meet, in a design of some strength."""
    if name in OPTIMIZERS:
        steps = [
            case
            for dtype in EVERY_DTYPE
            for case in update_strata(name, dtype, strength, EVERY_DTYPE, all_of(name, dtype))
        ]
        return Coverage(
            name,
            direction,
            len(steps),
            frozenset(met_by_optimizer(steps)),
            frozenset(wanted_of_optimizer(name)),
        )
    cases = cases_of(name, direction, strength)
    large = large_of(name, direction) if strength >= PAIRS else []
    return Coverage(
        name,
        direction,
        len(cases) + len(large),
        frozenset(met_by_op(cases)),
        frozenset(wanted_of_op(name, direction)),
        frozenset(pairs_met([*cases, *large])),
        frozenset(squares_met(cases)),
        frozenset(squares_wanted(name)),
    )


def cases_of(op: str, direction: str, strength: int) -> list[CaseSpec]:
    """Return the fixed cases of a row in all dtypes, which share them out."""
    return [
        case
        for dtype in EVERY_DTYPE
        for case in strata(op, direction, dtype, strength, EVERY_DTYPE)
    ]


def large_of(op: str, direction: str) -> list[CaseSpec]:
    """Return the large cases of a row in all dtypes, which share them out."""
    return [
        large.case for dtype in EVERY_DTYPE for large in near(op, direction, dtype, EVERY_DTYPE)
    ]


def _by_axes(pairs: frozenset[Pair]) -> Iterator[tuple[tuple[str, int, int, int], int]]:
    """Yield how many pairs of size classes meet on two axes of each tensor."""
    for axes, met in groupby(sorted(pairs), key=lambda pair: pair[:4]):
        yield axes, len(list(met))


def _along(square: Square) -> str:
    """Say along which axis a square is taken, and whether axes are kept."""
    _, axis, kept = square
    along = "" if axis is None else f" along axis {axis}"
    return along if kept is None else f"{along}, keepdims={kept}"
