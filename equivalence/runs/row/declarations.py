"""Declared findings about the cases of a row: what they cover, and whether they still hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from equivalence.budgets.findings import Finding, uncovered
from equivalence.budgets.outcome import Outcome, Over
from equivalence.cases.declared.inside import Inside
from equivalence.runs.choice import kind_of_case, read_case
from equivalence.runs.failure import Failure
from equivalence.runs.kinds import Case, Kind
from equivalence.runs.results import Row
from equivalence.runs.row.asking import Asking
from equivalence.runs.row.tally import Tally
from equivalence.workers.executor import Batch, Question


class Declarations:
    """The findings about the cases of one row."""

    def __init__(self, row: Row, findings: Sequence[Finding]) -> None:
        """Choose the findings about cases among those that speak of the row."""
        self.row = row
        self.findings = [finding for finding in findings if finding.kind == "case"]

    def undeclared(self, kind: Kind, case: Case, outcome: Outcome) -> list[Over] | None:
        """Return what of a failing case no finding covers; None where none could cover it."""
        return uncovered(self.findings, regimes_of(kind, case), outcome)

    def met(self, kind: Kind, case: Case, outcome: Outcome) -> Iterator[Finding]:
        """Yield the findings that cover something of a failing case."""
        regimes = regimes_of(kind, case)
        for finding in self.findings:
            if any(finding.covers(regimes, over) for over in outcome.over):
                yield finding

    def batch(self, asking: Asking, tally: Tally, inside: Inside | None = None) -> Batch:
        """Return a question for the case of each finding: it must still fail, as declared.

        What the backend does not take is not asked.
        """
        return Batch(self._questions(asking, tally, inside))

    def _questions(
        self, asking: Asking, tally: Tally, inside: Inside | None
    ) -> Iterator[Question[Outcome]]:
        """Ask the cases of the findings again."""
        for finding in filter(lambda finding: finding.strict, self.findings):
            row, case = read_case(str(finding.case))
            if row == self.row and (inside is None or inside.takes_case(case)):
                kind = kind_of_case(row, case)
                yield asking.question(kind, case, partial(_enter, tally, finding, kind, case))


def _enter(tally: Tally, finding: Finding, kind: Kind, case: Case, outcome: Outcome) -> None:
    """Enter a finding whose case passes, or which declares more than fails."""
    what = kind.describe(case)
    if outcome.refused is not None:
        return
    if not outcome.failed:
        tally.fail("findings", passes(finding, what))
    elif wide := finding.too_wide(regimes_of(kind, case), outcome):
        details = (wide, f"declared as: {finding.reason}")
        tally.fail("findings", Failure(f"declared finding is too wide: {what}", details))


def regimes_of(kind: Kind, case: Case) -> list[tuple[str, str]]:
    """Name the regime of each position of a case of some kind."""
    return [(position, recipe.regime) for position, recipe in kind.recipes(case)]


def passes(finding: Finding, what: str) -> Failure:
    """Return the failure that a declared finding is whose case passes."""
    return Failure(f"declared finding passes: {what}", (f"declared as: {finding.reason}",))
