"""The two kinds of cases a row may consist of: calls of an operation, and steps of an optimizer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from equivalence.budgets.outcome import Outcome
from equivalence.cases import call, shrink, updates
from equivalence.cases.call import CaseSpec, Recipe
from equivalence.cases.covering import SINGLES
from equivalence.cases.updates import UpdateSpec
from equivalence.measure.call import measure
from equivalence.measure.update import measure_update
from equivalence.runs.results import Row
from spec.ops import OPS

if TYPE_CHECKING:
    from hypothesis import strategies as st

    from equivalence.worlds.contract import Contract

Case = Any
"""A CaseSpec or an UpdateSpec: hashable, and one line of JSON."""


class Kind(Protocol):
    """What a row runner needs to know of its cases."""

    def fixed(self, strength: int = SINGLES) -> Sequence[Case]:
        """Return the fixed strata, by a design of some strength."""

    def extras(self) -> Sequence[Case]:
        """Return the cases that run uncounted."""

    def drawn(self) -> st.SearchStrategy[Case]:
        """Return the strategy of drawn cases."""

    def smaller(self, case: Case) -> Iterator[Case]:
        """Yield the cases one step below a failing one, most promising first."""

    def measure(self, backend: Any, case: Case, contract: Contract) -> Outcome:
        """Run a case and judge it."""

    def describe(self, case: Case) -> str:
        """Return a case as a reader writes it."""

    def recipes(self, case: Case) -> Sequence[tuple[str, Recipe]]:
        """Name the recipes of a case."""


class Calls:
    """Calls of one operation."""

    def __init__(self, row: Row) -> None:
        """Remember the row."""
        self.row = row

    def fixed(self, strength: int = SINGLES) -> Sequence[CaseSpec]:
        """Return the fixed strata, by a design of some strength."""
        from equivalence.cases import strata

        return strata.strata(self.row.op, self.row.direction, self.row.dtype, strength)

    def extras(self) -> Sequence[CaseSpec]:
        """Return the cases without elements."""
        from equivalence.cases import strata

        return strata.extras(self.row.op, self.row.direction, self.row.dtype)

    def drawn(self) -> st.SearchStrategy[CaseSpec]:
        """Draw from the page's type rule."""
        from equivalence.cases.strategies import case_specs

        return case_specs(self.row.op, self.row.direction, self.row.dtype)

    def smaller(self, case: CaseSpec) -> Iterator[CaseSpec]:
        """Yield smaller shapes, plainer numbers and plainer layouts."""
        return shrink.smaller_calls(case)

    def measure(self, backend: Any, case: CaseSpec, contract: Contract) -> Outcome:
        """Call the operation and judge every element."""
        return measure(backend, case, contract)

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

    def fixed(self, strength: int = SINGLES) -> Sequence[UpdateSpec]:
        """Return the fixed strata, the same for every strength."""
        return updates.update_strata(self.row.op, self.row.dtype)

    def extras(self) -> Sequence[UpdateSpec]:
        """Return the steps with gradients that are not finite."""
        return updates.spoiled_cases(self.row.op, self.row.dtype)

    def drawn(self) -> st.SearchStrategy[UpdateSpec]:
        """Draw hyper-parameters widely."""
        return updates.update_specs(self.row.op, self.row.dtype)

    def smaller(self, case: UpdateSpec) -> Iterator[UpdateSpec]:
        """Yield fewer steps and plainer settings."""
        return shrink.smaller_updates(case)

    def measure(self, backend: Any, case: UpdateSpec, contract: Contract) -> Outcome:
        """Step and judge every parameter and every state tensor at every step."""
        return measure_update(backend, case, contract)

    def describe(self, case: UpdateSpec) -> str:
        """Return the settings."""
        return updates.describe(case)

    def recipes(self, case: UpdateSpec) -> Sequence[tuple[str, Recipe]]:
        """Name the parameters and the gradients."""
        return [("parameters", case.parameters), ("gradients", case.gradients)]


def shows(case: Case, differing: bool) -> bool:
    """Say whether a case has something to see: results that differ, or zeros that are the point."""
    return differing or (
        isinstance(case, CaseSpec) and case.direction != "value" and OPS[case.op].stops_gradients
    )


def kind_of(row: Row) -> Kind:
    """Return the kind of a row's cases."""
    return Updates(row) if row.direction == "update" else Calls(row)


def read_case(text: str) -> tuple[Row, Case]:
    """Read a case of either kind from JSON, with the row that it belongs to."""
    plain = json.loads(text)
    if not isinstance(plain, dict):
        raise ValueError(f"a case is a JSON object; got {text}")
    if "optimizer" in plain:
        update = updates.update_from_dict(plain)
        return Row(update.optimizer, "update", update.dtype), update
    case = call.case_from_dict(plain)
    return Row(case.op, case.direction, case.dtype), case
