"""The large cases of a row: nothing of them is drawn, and nothing made smaller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from equivalence.budgets.outcome import Outcome
from equivalence.cases import call
from equivalence.cases.call import Recipe
from equivalence.cases.covering import SINGLES
from equivalence.cases.updates import spec
from equivalence.measure import plainly
from equivalence.runs.kinds import Calls, Case, Places, Updates, levels_of_tensors, taken
from equivalence.runs.results import Row

if TYPE_CHECKING:
    from equivalence.cases.declared.inside import Inside
    from equivalence.cases.sizes import SizedCase
    from equivalence.worlds.contract import Contract


class SizedCalls(Calls):
    """Large calls of one operation; nothing of them is drawn, and nothing made smaller."""

    def __init__(self, row: Row, cases: Sequence[SizedCase], inside: Inside | None = None) -> None:
        """Remember the row and its cases, as far as the backend takes them or what is like them."""
        super().__init__(row, inside)
        self.every = cases
        self.cases = list(cases)
        if inside is not None:
            from equivalence.cases.declared.large import fitting, lengthened

            fitted = (fitting(inside, case) for case in cases)
            taken = dict.fromkeys(case for case in fitted if case is not None)
            self.cases = list(taken or lengthened(*self.where, inside))

    def fixed(self, strength: int = SINGLES, dtypes: Sequence[str] = ()) -> Sequence[Case]:
        """Return all cases there are."""
        return self.cases

    def whole(self) -> Iterator[Places]:
        """Yield the call of every case that a backend of the whole op has."""
        return map(self.levels, self.every)

    def levels(self, case: Case) -> Places:
        """Let each large call be a level, and each layout; one that was changed is another one."""
        own = levels_of_tensors(case.case)
        layouts = {name: level for name, level in own.items() if name.startswith("layout_")}
        return {"large call": self.describe(case), **layouts}

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
        """Return the one case there is, and another by the extras of a backend that has any."""
        from equivalence.cases.declared.large import fitting_update
        from equivalence.cases.sizes import SizedUpdate
        from equivalence.measure.sizes import sized_extras, sized_update

        whole = sized_update(*self.where)
        if self.inside is None:
            return [SizedUpdate(whole)]
        case = fitting_update(self.inside, whole)
        more = taken(self.inside, sized_extras(*self.where, self.inside.extras))
        return [SizedUpdate(each) for each in (case, *more) if each is not None]

    def whole(self) -> Iterator[Places]:
        """Yield the one case that a backend of the whole op has."""
        from equivalence.measure.sizes import sized_update

        yield {"large update": spec.describe(sized_update(self.row.op, self.row.dtype))}

    def levels(self, case: Case) -> Places:
        """Let a case be a level: one that was changed is not the whole op's."""
        return {"large update": self.describe(case)}

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
