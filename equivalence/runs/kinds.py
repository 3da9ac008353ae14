"""The two kinds of cases a row may consist of: calls of an operation, and steps of an optimizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from equivalence.budgets.outcome import Outcome
from equivalence.cases import call, shrink
from equivalence.cases.call import CaseSpec, Recipe
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.domains import grouped_levels
from equivalence.cases.guard import plainest_layout
from equivalence.cases.updates import design, spec
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure import plainly
from equivalence.measure.call import measure
from equivalence.measure.update import measure_update
from equivalence.registry import OPS
from equivalence.runs.results import Row

if TYPE_CHECKING:
    from hypothesis import strategies as st

    from equivalence.cases.declared.inside import Inside
    from equivalence.worlds.contract import Contract

Case = Any
"""A CaseSpec or an UpdateSpec: hashable, and one line of JSON."""


Places = Mapping[str, Any]
"""Levels of a design by the names of their factors."""


class Kind(Protocol):
    """What a row runner needs to know of its cases; refused counts draws by what a page said."""

    refused: Counter[str]

    def whole(self) -> Iterable[Places]:
        """Yield the levels of every case that a backend of the whole op has at the least."""

    def levels(self, case: Case) -> Places:
        """Return the levels of a fixed case or an extra; none of any other case."""

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

    def __init__(self, row: Row, inside: Inside | None = None) -> None:
        """Remember the row, and which part of the op the backend takes, if not all."""
        self.row, self.inside = row, inside
        self.where = (row.op, row.direction, row.dtype)
        self.refused = Counter[str]()
        self._levels: dict[CaseSpec, Places] = {}

    def fixed(self, strength: int = SINGLES, dtypes: Sequence[str] = ()) -> Sequence[CaseSpec]:
        """Return the fixed strata, by a design of some strength, for a backend of these dtypes."""
        from equivalence.cases.strata import fixed

        found = fixed.designed(*self.where, strength, dtypes, self.inside)
        self._levels |= dict(found)
        return [case for case, _ in found]

    def extras(self) -> Sequence[CaseSpec]:
        """Return the cases without elements."""
        from equivalence.cases.strata import fixed

        found = fixed.extras(*self.where, self.inside)
        self._levels |= {case: _few_elements(case) for case in found}
        return found

    def whole(self) -> Iterator[Places]:
        """Yield the rows of the design of single levels, and the cases without elements."""
        from equivalence.cases.strata import fixed, rules

        yield from rules.design(OPS[self.row.op], self.row.direction).rows(SINGLES)
        yield from map(_few_elements, fixed.extras(*self.where))

    def levels(self, case: CaseSpec) -> Places:
        """Return the levels of a case of the design; of another, those of its tensors."""
        known = self._levels.get(case)
        return grouped_levels(levels_of_tensors(case) if known is None else known)

    def drawn(self) -> st.SearchStrategy[CaseSpec]:
        """Draw from the page's type rule."""
        from equivalence.cases.strategies import case_specs

        return case_specs(*self.where, self.refused, self.inside)

    def smaller(self, case: CaseSpec) -> Iterator[CaseSpec]:
        """Yield smaller shapes, plainer numbers and plainer layouts."""
        return taken(self.inside, shrink.smaller_calls(case))

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

    def __init__(self, row: Row, inside: Inside | None = None) -> None:
        """Remember the row, and which steps the backend takes, if not all."""
        self.row, self.inside = row, inside
        self.where = (row.op, row.dtype)
        self.refused = Counter[str]()
        self._levels: dict[UpdateSpec, Places] = {}

    def fixed(self, strength: int = SINGLES, dtypes: Sequence[str] = ()) -> Sequence[UpdateSpec]:
        """Return the fixed strata: what is beyond pairs is left to what is drawn."""
        found = design.designed_updates(*self.where, min(strength, PAIRS), dtypes, self.inside)
        self._levels |= dict(found)
        return [case for case, _ in found]

    def extras(self) -> Sequence[UpdateSpec]:
        """Return the steps with gradients that are not finite."""
        return design.spoiled_cases(*self.where, self.inside)

    def whole(self) -> Iterator[Places]:
        """Yield the rows of the design of single levels."""
        yield from design.rows(self.row.op, SINGLES)

    def levels(self, case: UpdateSpec) -> Places:
        """Return the levels of a case of the design."""
        return self._levels.get(case, {})

    def drawn(self) -> st.SearchStrategy[UpdateSpec]:
        """Draw hyper-parameters widely."""
        return design.update_specs(*self.where, self.inside)

    def smaller(self, case: UpdateSpec) -> Iterator[UpdateSpec]:
        """Yield fewer steps and plainer settings."""
        return taken(self.inside, shrink.smaller_updates(case))

    measure = staticmethod(measure_update)
    ways = staticmethod(plainly.ways)
    measure_plainly = staticmethod(plainly.update_plainly)

    def describe(self, case: UpdateSpec) -> str:
        """Return the settings."""
        return spec.describe(case)

    def recipes(self, case: UpdateSpec) -> Sequence[tuple[str, Recipe]]:
        """Name the parameters and the gradients."""
        return spec.recipes_of(case)


def taken(inside: Inside | None, cases: Iterable[Any]) -> Iterator[Any]:
    """Yield the cases that a backend takes."""
    return (case for case in cases if inside is None or inside.takes_case(case))


def levels_of_tensors(case: CaseSpec) -> Places:
    """Return the levels that a case has by its tensors and its calling pattern alone."""
    found: dict[str, Any] = {"calling": case.calling}
    variadic = OPS[case.op].variadic
    for k, (shape, recipe) in enumerate(zip(case.shapes, case.recipes, strict=True)):
        column = k % 2 if variadic else k
        found[f"layout_{column}"] = plainest_layout(shape, recipe.layout)
        found[f"regime_{column}"] = recipe.regime
    for _, recipe in case.seeds():
        found["seed_regime"] = recipe.regime
    return found


def _few_elements(case: CaseSpec) -> Places:
    """Return the level of a case with no element or one."""
    shapes = ", ".join(f"[{','.join(map(str, shape))}]" for shape in case.shapes)
    return {"few elements": shapes or str(case.attributes().get("shape", ""))}


def shows(case: Case, differing: bool) -> bool:
    """Say whether a case has something to see: results that differ, or zeros that are the point."""
    call = getattr(case, "case", case)  # that of a large one
    return differing or (
        isinstance(call, CaseSpec) and call.direction != "value" and OPS[call.op].stops_gradients
    )
