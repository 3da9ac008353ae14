"""The two kinds of cases a row may consist of: calls of an operation, and steps of an optimizer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from equivalence.budgets.outcome import Outcome
from equivalence.cases import call, shrink
from equivalence.cases.call import CaseSpec, Recipe
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.domains import grouped_levels
from equivalence.cases.guard import plainest_layout
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

    from equivalence.cases.declared.inside import Inside
    from equivalence.cases.sizes import SizedCase
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
        return grouped_levels(_levels_of_tensors(case) if known is None else known)

    def drawn(self) -> st.SearchStrategy[CaseSpec]:
        """Draw from the page's type rule."""
        from equivalence.cases.strategies import case_specs

        return case_specs(*self.where, self.refused, self.inside)

    def smaller(self, case: CaseSpec) -> Iterator[CaseSpec]:
        """Yield smaller shapes, plainer numbers and plainer layouts."""
        return _taken(self.inside, shrink.smaller_calls(case))

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
        return _taken(self.inside, shrink.smaller_updates(case))

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

        cases = _taken(self.inside, [sized_update(self.row.op, self.row.dtype)])
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


def has_sizes(row: Row) -> bool:
    """Say whether a row has large cases; updates in float64 have none, for lack of integers."""
    return row.direction != "update" or DTYPES[row.dtype].compute != FP64


def sized_kind(
    row: Row, backend: Any, *, all_of_them: bool = True, inside: Inside | None = None
) -> Kind:
    """Return the large cases of a row, at the sizes that suit a backend; or only the nearest."""
    if row.direction == "update":
        return SizedUpdates(row, inside)
    where = (row.op, row.direction, row.dtype)
    if backend.capabilities().ring == "interpreted":
        from equivalence.measure.grids import by_launches

        fit = None if inside is None else partial(fitting, inside)
        found = by_launches(backend, *where, all_of_them=all_of_them, fit=fit)
        return SizedCalls(row, found, inside)
    from equivalence.measure.sizes import full, near

    dtypes = backend.capabilities().ops[row.op]
    return SizedCalls(row, full(*where) if all_of_them else near(*where, dtypes), inside)


def fitting(inside: Inside, case: SizedCase) -> SizedCase | None:
    """Return a large call as a backend takes it, in another layout or with declared attributes.

    None says that it takes it in no way.
    """
    among = (inside.laid(own) for own in (case.case, inside.with_values(case.case)))
    taken = next((own for own in among if own is not None), None)
    return None if taken is None else replace(case, case=taken)


def _taken(inside: Inside | None, cases: Iterable[Any]) -> Iterator[Any]:
    """Yield the cases that a backend takes."""
    return (case for case in cases if inside is None or inside.takes_case(case))


def _levels_of_tensors(case: CaseSpec) -> Places:
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


def kind_of(row: Row, inside: Inside | None = None) -> Kind:
    """Return the kind of a row's cases, or of those that a backend takes."""
    return Updates(row, inside) if row.direction == "update" else Calls(row, inside)


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
