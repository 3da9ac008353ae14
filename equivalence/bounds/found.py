"""Looks for a drawn case of a row whose bounds say something, and which hypotheses it meets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from equivalence.backends.libraries import declared
from equivalence.bounds.hypotheses import noting
from equivalence.bounds.planted import Planted, plant
from equivalence.cases.built import build
from equivalence.cases.call import CaseSpec, describe, dtype_of_result
from equivalence.cases.strategies import draw_many
from equivalence.measure.call import expectation
from equivalence.runs.kinds import Calls
from equivalence.runs.results import Row
from equivalence.runs.runner import row_seed

FAMILY = "aten"
"""Whose contracts the bounds are of."""

DRAWN = 12
"""How many cases are drawn for a row before the fixed ones are tried."""


@dataclass(frozen=True)
class Bound:
    """A case of a row, what was planted, and the hypotheses that its result has met.

    `elsewhere` has, for each further hypothesis of the row, a case that meets it.
    """

    case: str
    planted: Planted
    met: tuple[str, ...]
    elsewhere: dict[str, str]


def found(row: Row, seed: int = 0) -> Bound | None:
    """Return a bound of a row; None where no case has one: no result holds numbers."""
    contract = declared(FAMILY)(row.op, row.dtype)
    best: tuple[str, Planted, tuple[str, ...]] | None = None
    elsewhere: dict[str, str] = {}
    for turn, case in enumerate(_cases(row, seed)):
        if turn >= DRAWN and best is not None and best[1].bound:
            break
        with noting() as met:
            expected = _expected(case, contract)
        dtype = dtype_of_result(case)
        for result in expected:
            planted = None if result is None or not result.data else plant(result, dtype)
            if planted is None:
                continue
            for name in met:
                elsewhere.setdefault(name, describe(case))
            if best is None or (not best[1].bound and planted.bound):
                best = describe(case), planted, tuple(sorted(met))
    if best is None:
        return None
    return Bound(*best, {name: case for name, case in elsewhere.items() if name not in best[2]})


def _cases(row: Row, seed: int) -> Iterator[CaseSpec]:
    kind = Calls(row)
    yield from draw_many(kind.drawn(), DRAWN, row_seed(seed, row))
    yield from kind.fixed()


def _expected(case: CaseSpec, contract: Any) -> list[Any]:
    return [*expectation(build(case), contract)]
