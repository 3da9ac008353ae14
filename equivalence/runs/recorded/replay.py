"""Replays: rows judged by what was recorded, on a machine that need not have the oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equivalence.budgets.outcome import Outcome, merged
from equivalence.budgets.recorded import judge_recorded
from equivalence.cases.covering import SINGLES
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure import plainly
from equivalence.measure.call import attempt, compare, result_names
from equivalence.measure.explained.explain import explained_call
from equivalence.measure.explained.steps import explained_step
from equivalence.measure.reference import Expected
from equivalence.measure.shadow import Step, judge_step, measure_steps
from equivalence.registry import OPTIMIZERS
from equivalence.runs.choice import kind_of
from equivalence.runs.failure import Failure
from equivalence.runs.kinds import Case
from equivalence.runs.recorded.archive import (
    Archive,
    Entry,
    counting,
    load_archive,
    path_of,
    result_name,
)
from equivalence.runs.results import Row, RowResult
from equivalence.runs.rows import inside_of, supported

if TYPE_CHECKING:
    from equivalence.budgets.findings import Finding
    from equivalence.cases.declared.inside import Inside


class Replayed:
    """The kind of a row whose cases are recorded ones."""

    def __init__(self, archive: Archive, inside: Inside | None = None) -> None:
        """Index the entries by their cases; everything about the cases' form stays as it is.

        inside says which cases the backend takes, if not all.
        """
        self.inner = kind_of(archive.row)
        self.left = archive.left
        self.every = {entry.case: entry for entry in archive.entries}
        self.entries = {
            case: entry
            for case, entry in self.every.items()
            if inside is None or inside.takes_case(case)
        }
        self.describe, self.recipes = self.inner.describe, self.inner.recipes
        self.smaller, self.drawn = self.inner.smaller, self.inner.drawn
        self.refused = self.inner.refused
        self.measure_plainly = self.inner.measure_plainly

    def whole(self) -> Iterator[Mapping[str, Any]]:
        """Yield every recorded case as a level: designs need the oracle's libraries.

        What was not recorded is told by the levels that the recording names.
        """
        yield from map(self.levels, self.every)
        yield from ({name: level} for name, levels in self.left.items() for level in levels)

    def levels(self, case: Case) -> Mapping[str, Any]:
        """Return the level that stands for a case."""
        return {"recorded case": self.describe(case)}

    def fixed(self, strength: int = SINGLES, dtypes: Sequence[str] = ()) -> Sequence[Case]:
        """Return the counted cases, as many as were recorded."""
        return [case for case, entry in self.entries.items() if entry.counted]

    def extras(self) -> Sequence[Case]:
        """Return the uncounted cases."""
        return [case for case, entry in self.entries.items() if not entry.counted]

    ways = staticmethod(plainly.no_ways)

    def measure(self, backend: Any, case: Case, contract: Any) -> Outcome:
        """Run a recorded case and judge it by what was recorded."""
        del contract
        # A refused case is made again with numbers that nobody recorded.
        entry = self.every.get(case, Entry(case, False, {}, {}))
        if isinstance(case, UpdateSpec):
            return _replay_update(backend, case, entry)
        return _replay_call(backend, case, entry)


def _replay_call(backend: Any, case: Case, entry: Entry) -> Outcome:
    """Run one recorded call."""
    from equivalence.cases.built import build

    built = build(case, backend.capabilities().device, entry.numbers or None)
    results = attempt(backend, built)
    if isinstance(results, Outcome):
        return results
    names = result_names(case)
    outcome = compare(names, results, [entry.allowed.get(n) for n in names], judge_recorded)
    return explained_call(outcome, built, names, None)


def _replay_update(backend: Any, case: UpdateSpec, entry: Entry) -> Outcome:
    """Run the recorded steps of an optimizer."""

    def judge(steps: Sequence[Step], offered: UpdateSpec) -> Outcome:
        # What was recorded is of the whole case, and says nothing where a handle lacks some of it.
        return merged(*(one(step, case) for step in steps)) if offered == case else Outcome()

    def one(step: Step, case: UpdateSpec) -> Outcome:
        fields = ("parameter", *OPTIMIZERS[case.optimizer].moments)
        tensors = {
            f: entry.allowed.get(result_name(step.number, step.parameter, f)) for f in fields
        }
        count = step.count + 1 if OPTIMIZERS[case.optimizer].counted else None
        return explained_step(
            judge_step(step, Expected(tensors, count), judge_recorded), step, case
        )

    return measure_steps(backend, case, judge, entry.numbers or None)


def _optional(case: Case) -> bool:
    """Say whether a case asks of a handle what it need not offer."""
    return isinstance(case, UpdateSpec) and case.grad_scale != 1.0


def replay_row(
    backend: Any, row: Row, *, folder: Path, findings: Sequence[Finding], address: str | None = None
) -> RowResult:
    """Judge one row by its recorded cases."""
    from equivalence.runs.runner import run_row

    capabilities = backend.capabilities()
    if not supported(capabilities, row):
        return RowResult(row, "unsupported", ring=capabilities.ring)
    if not path_of(folder, row).exists():
        return RowResult(row, "vacuous", ring=capabilities.ring)
    archive = load_archive(folder, row)
    contract = capabilities.contract(row.op, row.dtype)
    if archive.contract != contract.name:
        title = f"recorded for {archive.contract!r}, but the backend declares {contract.name!r}"
        return RowResult(
            row, "error", ring=capabilities.ring, failures=(Failure(title, kind="crash"),)
        )
    kind = Replayed(archive, inside_of(capabilities, row))
    counted = sum(e.counted and counting(e) and not _optional(e.case) for e in archive.entries)
    return run_row(
        backend,
        row,
        counted=counted,
        seed=0,
        findings=findings,
        kind=kind,
        oracle=False,
        address=address,
    )
