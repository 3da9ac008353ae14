"""Which kind of cases a row has, and which row and kind a case in JSON belongs to."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from equivalence.cases import call
from equivalence.cases.updates import spec
from equivalence.dtypes import DTYPES, FP64
from equivalence.runs.kinds import Calls, Case, Kind, Updates
from equivalence.runs.results import Row
from equivalence.runs.sized import SizedCalls, SizedUpdates

if TYPE_CHECKING:
    from equivalence.cases.declared.inside import Inside


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
        from equivalence.cases.declared.large import fitting
        from equivalence.measure.grids import by_launches

        fit = None if inside is None else partial(fitting, inside)
        found = by_launches(backend, *where, all_of_them=all_of_them, fit=fit)
        return SizedCalls(row, found, inside)
    from equivalence.measure.sizes import full, near

    dtypes = backend.capabilities().ops[row.op]
    return SizedCalls(row, full(*where) if all_of_them else near(*where, dtypes), inside)


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
