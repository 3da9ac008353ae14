"""Looks for a drawn case of a row whose bounds say something, and which hypotheses it meets."""

from __future__ import annotations

from collections.abc import Collection, Iterator
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


class Best:
    """The case that says most of a row so far, and where its hypotheses are met."""

    def __init__(self) -> None:
        """Start without a case."""
        self._chosen: tuple[str, Planted, tuple[str, ...]] | None = None
        self._elsewhere: dict[str, str] = {}

    @property
    def narrow(self) -> bool:
        """Whether there is a case whose bound is above 0 and says something."""
        return self._chosen is not None and self._chosen[1].bound > 0

    def offer(self, case: str, planted: Planted | None, met: Collection[str]) -> None:
        """Take what was planted in a result, and the hypotheses that this has met."""
        if planted is None:
            return
        for name in met:
            self._elsewhere.setdefault(name, case)
        if self._chosen is None or (planted.bound and not self.narrow):
            self._chosen = case, planted, tuple(sorted(met))

    def bound(self) -> Bound | None:
        """Return the case; None where there is none."""
        if self._chosen is None:
            return None
        case, planted, met = self._chosen
        others = {name: other for name, other in self._elsewhere.items() if name not in met}
        return Bound(case, planted, met, others)


def found(row: Row, seed: int = 0) -> Bound | None:
    """Return a bound of a row; None where no case has one: no result holds numbers."""
    contract = declared(FAMILY)(row.op, row.dtype)
    best = Best()
    for turn, case in enumerate(_cases(row, seed)):
        if turn >= DRAWN and best.narrow:
            break
        with noting() as met:
            expected = _expected(case, contract)
        dtype = dtype_of_result(case)
        for result in expected:
            planted = None if result is None or not result.data else plant(result, dtype)
            best.offer(describe(case), planted, met)
    return best.bound()


def _cases(row: Row, seed: int) -> Iterator[CaseSpec]:
    kind = Calls(row)
    yield from draw_many(kind.drawn(), DRAWN, row_seed(seed, row))
    yield from kind.fixed()


def _expected(case: CaseSpec, contract: Any) -> list[Any]:
    return [*expectation(build(case), contract)]
