"""Declared findings about the cases of a row: what they cover, and whether they still hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from equivalence.budgets.findings import Finding
from equivalence.budgets.outcome import Outcome, Over
from equivalence.runs.kinds import Case, Kind, kind_of_case, read_case
from equivalence.runs.results import Failure, Row
from equivalence.runs.row.asking import Asking


class Declarations:
    """The findings about the cases of one row."""

    def __init__(self, row: Row, kind: Kind, findings: Sequence[Finding]) -> None:
        """Keep of findings that speak of a row those about cases."""
        self.row, self.kind = row, kind
        self.findings = [finding for finding in findings if finding.kind == "case"]

    def undeclared(self, case: Case, outcome: Outcome) -> list[Over] | None:
        """Return what of a failing case no finding covers; None where none could cover it."""
        if outcome.crash is not None or outcome.problem is not None or not outcome.over:
            return None
        regimes = self.regimes(case)
        return [
            over
            for over in outcome.over
            if not any(finding.covers(regimes, over) for finding in self.findings)
        ]

    def met(self, case: Case, outcome: Outcome) -> Iterator[Finding]:
        """Yield the findings that cover something of a failing case."""
        regimes = self.regimes(case)
        for finding in self.findings:
            if any(finding.covers(regimes, over) for over in outcome.over):
                yield finding

    def failures(self, asking: Asking) -> Iterator[Failure]:
        """Replay the minimal case of every finding: it must still fail, as it is declared."""
        for finding in self.findings:
            row, case = read_case(str(finding.case))
            if row != self.row:
                continue
            kind = kind_of_case(row, case)
            with asking.judging(kind):
                outcome = asking.measure(case)
            what = kind.describe(case)
            if not outcome.failed:
                yield passes(finding, what)
            elif wide := finding.too_wide(regimes_of(kind, case), outcome):
                details = (wide, f"declared as: {finding.reason}")
                yield Failure(f"declared finding is too wide: {what}", details)

    def regimes(self, case: Case) -> list[tuple[str, str]]:
        """Name the regime of each position of a case."""
        return regimes_of(self.kind, case)


def regimes_of(kind: Kind, case: Case) -> list[tuple[str, str]]:
    """Name the regime of each position of a case of some kind."""
    return [(position, recipe.regime) for position, recipe in kind.recipes(case)]


def passes(finding: Finding, what: str) -> Failure:
    """Return the failure that a declared finding is whose case passes."""
    return Failure(f"declared finding passes: {what}", (f"declared as: {finding.reason}",))
