"""The large cases of a row: nothing of them is drawn, and nothing made smaller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from equivalence.budgets.outcome import Outcome
from equivalence.cases import call
from equivalence.cases.call import Recipe
from equivalence.cases.covering import SINGLES
from equivalence.measure import plainly
from equivalence.runs.kinds import Calls, Case, Places, Updates, taken
from equivalence.runs.results import Row

if TYPE_CHECKING:
    from equivalence.cases.declared.inside import Inside
    from equivalence.cases.sizes import SizedCase
    from equivalence.worlds.contract import Contract


def fitting(inside: Inside, case: SizedCase) -> SizedCase | None:
    """Return a large call as a backend takes it, in another layout or with declared attributes.

    None says that it takes it in no way.
    """
    among = (inside.laid(own) for own in (case.case, inside.with_values(case.case)))
    found = next((own for own in among if own is not None), None)
    return None if found is None else replace(case, case=found)


class SizedCalls(Calls):
    """Large calls of one operation; nothing of them is drawn, and nothing made smaller."""

    def __init__(self, row: Row, cases: Sequence[SizedCase], inside: Inside | None = None) -> None:
        """Remember the row and its cases, of which those stay that the backend takes."""
        super().__init__(row, inside)
        fitted = {case: case if inside is None else fitting(inside, case) for case in cases}
        self.every = cases
        self.cases = [case for case in fitted.values() if case is not None]
        self.origins = {case: origin for origin, case in fitted.items()}

    def fixed(self, strength: int = SINGLES, dtypes: Sequence[str] = ()) -> Sequence[Case]:
        """Return all cases there are."""
        return self.cases

    def whole(self) -> Iterator[Places]:
        """Yield the call of every case that a backend of the whole op has."""
        return map(self.levels, self.every)

    def levels(self, case: Case) -> Places:
        """Let each large call be a level."""
        return {"large call": self.describe(self.origins.get(case, case))}

    def smaller(self, case: Case) -> Iterator[Case]:
        """Yield nothing: what fails at a size may well pass below it."""
        return iter(())

    def measure(self, backend: Any, case: Case, contract: Contract) -> Outcome:
        """Call the operation and judge every element, or a sample."""
        from equivalence.measure.sizes import measure_sized

        return measure_sized(backend, case, contract)

    def measure_plainly(
        self, backend: Any, case: Case, contract: Contract, way: tuple[str, ...]
    ) -> Outcome:
        """Call the operation with tensors that lie row-major; there is no other way."""
        return self.measure(backend, replace(case, case=plainly.laid_plainly(case.case)), contract)

    def describe(self, case: Case) -> str:
        """Return the call and what it is given."""
        return f"{call.describe(case.case)}, {case.regime}"

    def recipes(self, case: Case) -> Sequence[tuple[str, Recipe]]:
        """Name the regime of all numbers, which follow from the case."""
        return [("numbers", Recipe(case.regime))]


class SizedUpdates(Updates):
    """Steps of one optimizer on many elements, which lie row-major."""

    def fixed(self, strength: int = SINGLES, dtypes: Sequence[str] = ()) -> Sequence[Case]:
        """Return the one case there is."""
        from equivalence.cases.sizes import SizedUpdate
        from equivalence.measure.sizes import sized_update

        cases = taken(self.inside, [sized_update(self.row.op, self.row.dtype)])
        return [SizedUpdate(case) for case in cases]

    def whole(self) -> Iterator[Places]:
        """Yield the one case there is."""
        yield {"large update": self.row.op}

    def levels(self, case: Case) -> Places:
        """Let the one case be a level."""
        return {"large update": self.row.op}

    def smaller(self, case: Case) -> Iterator[Case]:
        """Yield nothing: what fails at a size may well pass below it."""
        return iter(())

    ways = staticmethod(plainly.no_ways)

    def measure(self, backend: Any, case: Case, contract: Contract) -> Outcome:
        """Step and judge every element of every parameter and every state after each step."""
        from equivalence.measure.sizes import measure_sized_update

        return measure_sized_update(backend, case.case, contract)

    def describe(self, case: Case) -> str:
        """Return the settings."""
        return super().describe(case.case)

    def recipes(self, case: Case) -> Sequence[tuple[str, Recipe]]:
        """Name the parameters and the gradients."""
        return super().recipes(case.case)
