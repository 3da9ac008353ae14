"""The two kinds of cases a row may consist of: calls of an operation, and steps of an optimizer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from equivalence.budgets.outcome import Outcome
from equivalence.cases import call, shrink
from equivalence.cases.call import CaseSpec, Recipe
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.updates import design, spec
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.dtypes import DTYPES, FP64
from equivalence.measure import plainly
from equivalence.measure.call import measure
from equivalence.measure.update import measure_update
from equivalence.registry import OPS
from equivalence.runs.results import Row

if TYPE_CHECKING:
    from hypothesis import strategies as st

    from equivalence.cases.sizes import SizedCase
    from equivalence.worlds.contract import Contract

Case = Any
"""A CaseSpec or an UpdateSpec: hashable, and one line of JSON."""


class Kind(Protocol):
    """What a row runner needs to know of its cases; refused counts draws by what a page said."""

    refused: Counter[str]

    def fixed(self, strength: int = SINGLES, dtypes: Sequence[str] = ()) -> Sequence[Case]:
        """Return the fixed strata, by a design of some strength, for a backend of these dtypes."""

    def extras(self) -> Sequence[Case]:
        """Return the cases that run uncounted."""

    def drawn(self) -> st.SearchStrategy[Case]:
        """Return the strategy of drawn cases."""

    def smaller(self, case: Case) -> Iterator[Case]:
        """Yield the cases one step below a failing one, most promising first."""

    def measure(self, backend: Any, case: Case, contract: Contract) -> Outcome:
        """Run a case and judge it."""

    def ways(self, case: Case) -> Sequence[tuple[str, ...]]:
        """Return in which ways a case can be made plainer that keep its numbers."""

    def measure_plainly(
        self, backend: Any, case: Case, contract: Contract, way: tuple[str, ...]
    ) -> Outcome:
        """Run the numbers of a case in such a way, and judge them."""

    def describe(self, case: Case) -> str:
        """Return a case as a reader writes it."""

    def recipes(self, case: Case) -> Sequence[tuple[str, Recipe]]:
        """Name the recipes of a case."""


class Calls:
    """Calls of one operation."""

    def __init__(self, row: Row) -> None:
        """Remember the row."""
        self.row = row
        self.refused = Counter[str]()

    def fixed(self, strength: int = SINGLES, dtypes: Sequence[str] = ()) -> Sequence[CaseSpec]:
        """Return the fixed strata, by a design of some strength, for a backend of these dtypes."""
        from equivalence.cases.strata import fixed

        return fixed.strata(self.row.op, self.row.direction, self.row.dtype, strength, dtypes)

    def extras(self) -> Sequence[CaseSpec]:
        """Return the cases without elements."""
        from equivalence.cases.strata import fixed

        return fixed.extras(self.row.op, self.row.direction, self.row.dtype)

    def drawn(self) -> st.SearchStrategy[CaseSpec]:
        """Draw from the page's type rule."""
        from equivalence.cases.strategies import case_specs

        return case_specs(self.row.op, self.row.direction, self.row.dtype, self.refused)

    def smaller(self, case: CaseSpec) -> Iterator[CaseSpec]:
        """Yield smaller shapes, plainer numbers and plainer layouts."""
        return shrink.smaller_calls(case)

    measure = staticmethod(measure)
    ways = staticmethod(plainly.ways)
    measure_plainly = staticmethod(plainly.call_plainly)

    def describe(self, case: CaseSpec) -> str:
        """Return the call."""
        return call.describe(case)

    def recipes(self, case: CaseSpec) -> Sequence[tuple[str, Recipe]]:
        """Name the inputs and the cotangent or tangent."""
        inputs = [(f"input {k}", recipe) for k, recipe in enumerate(case.recipes)]
        return [*inputs, *case.seeds()]


class Updates:
    """Steps of one optimizer."""

    def __init__(self, row: Row) -> None:
        """Remember the row."""
        self.row = row
        self.refused = Counter[str]()

    def fixed(self, strength: int = SINGLES, dtypes: Sequence[str] = ()) -> Sequence[UpdateSpec]:
        """Return the fixed strata: what is beyond pairs is left to what is drawn."""
        return design.update_strata(self.row.op, self.row.dtype, min(strength, PAIRS), dtypes)

    def extras(self) -> Sequence[UpdateSpec]:
        """Return the steps with gradients that are not finite."""
        return design.spoiled_cases(self.row.op, self.row.dtype)

    def drawn(self) -> st.SearchStrategy[UpdateSpec]:
        """Draw hyper-parameters widely."""
        return design.update_specs(self.row.op, self.row.dtype)

    def smaller(self, case: UpdateSpec) -> Iterator[UpdateSpec]:
        """Yield fewer steps and plainer settings."""
        return shrink.smaller_updates(case)

    measure = staticmethod(measure_update)
    ways = staticmethod(plainly.ways)
    measure_plainly = staticmethod(plainly.update_plainly)

    def describe(self, case: UpdateSpec) -> str:
        """Return the settings."""
        return spec.describe(case)

    def recipes(self, case: UpdateSpec) -> Sequence[tuple[str, Recipe]]:
        """Name the parameters and the gradients."""
        return [("parameters", case.parameters), ("gradients", case.gradients)]


class SizedCalls(Calls):
    """Large calls of one operation; nothing of them is drawn, and nothing made smaller."""

    def __init__(self, row: Row, cases: Sequence[SizedCase]) -> None:
        """Remember the row and its cases."""
        super().__init__(row)
        self.cases = cases

    def fixed(self, strength: int = SINGLES, dtypes: Sequence[str] = ()) -> Sequence[Case]:
        """Return all cases there are."""
        return self.cases

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

        return [SizedUpdate(sized_update(self.row.op, self.row.dtype))]

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


def has_sizes(row: Row) -> bool:
    """Say whether a row has large cases; updates in float64 have none, for lack of integers."""
    return row.direction != "update" or DTYPES[row.dtype].compute != FP64


def sized_kind(row: Row, backend: Any, *, all_of_them: bool = True) -> Kind:
    """Return the large cases of a row, at the sizes that suit a backend; or only the nearest."""
    if row.direction == "update":
        return SizedUpdates(row)
    where = (row.op, row.direction, row.dtype)
    if backend.capabilities().ring == "interpreted":
        from equivalence.measure.grids import by_launches

        return SizedCalls(row, by_launches(backend, *where, all_of_them=all_of_them))
    from equivalence.measure.sizes import full, near

    dtypes = backend.capabilities().ops[row.op]
    return SizedCalls(row, full(*where) if all_of_them else near(*where, dtypes))


def shows(case: Case, differing: bool) -> bool:
    """Say whether a case has something to see: results that differ, or zeros that are the point."""
    call = getattr(case, "case", case)  # that of a large one
    return differing or (
        isinstance(call, CaseSpec) and call.direction != "value" and OPS[call.op].stops_gradients
    )


def kind_of(row: Row) -> Kind:
    """Return the kind of a row's cases."""
    return Updates(row) if row.direction == "update" else Calls(row)


def kind_of_case(row: Row, case: Case) -> Kind:
    """Return the kind of a case of a row, which may be one of its large calls."""
    from equivalence.cases.sizes import SizedCase, SizedUpdate

    if isinstance(case, SizedUpdate):
        return SizedUpdates(row)
    return SizedCalls(row, [case]) if isinstance(case, SizedCase) else kind_of(row)


def read_case(text: str) -> tuple[Row, Case]:
    """Read a case of either kind from JSON, with the row that it belongs to."""
    plain = json.loads(text)
    if not isinstance(plain, dict):
        raise ValueError(f"a case is a JSON object; got {text}")
    if "sized" in plain:
        from equivalence.cases.sizes import sized_from_dict

        large = sized_from_dict(plain)
        own = large.case
        if isinstance(own, spec.UpdateSpec):
            return Row(own.optimizer, "update", own.dtype), large
        return Row(own.op, own.direction, own.dtype), large
    if "optimizer" in plain:
        update = spec.update_from_dict(plain)
        return Row(update.optimizer, "update", update.dtype), update
    case = call.case_from_dict(plain)
    return Row(case.op, case.direction, case.dtype), case
