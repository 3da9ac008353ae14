"""The invalid calls of a page, put to a backend: it must refuse each of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from equivalence.budgets.findings import Finding
from equivalence.cases.nearmiss import describe, misses, refused_by_backend, refused_by_reference
from equivalence.runs.results import Failure, Row
from equivalence.runs.row.asking import ended
from equivalence.runs.row.declarations import passes
from equivalence.runs.row.proposals import Author
from equivalence.runs.row.tally import Tally
from equivalence.workers.executor import Batch, Question
from equivalence.workers.notes import Ended
from spec.refusals import Miss


class Refusals:
    """The invalid calls of one row of a run, and the findings about them."""

    def __init__(
        self, backend: Any, row: Row, tally: Tally, findings: Sequence[Finding], author: Author
    ) -> None:
        """Remember whom to ask and where to enter the answers; the findings speak of the row."""
        self.backend, self.row, self.tally, self.author = backend, row, tally, author
        self.findings = [finding for finding in findings if finding.kind == "near-miss"]
        self.labelled = backend.capabilities().labelled
        self.accepted: set[str] = set()

    def batch(self) -> Batch:
        """Return a question for each invalid call."""
        questions = (self._question(miss) for miss in misses(self.row.op))
        return Batch(questions, close=self._compare)

    def _question(self, miss: Miss) -> Question[str | None]:
        """Ask what is wrong with the refusal of a call."""
        title = describe(self.row.op, miss)
        return Question(
            f"near-miss {title}",
            title,
            partial(self._problem, miss),
            partial(self._enter, miss, title),
        )

    def _problem(self, miss: Miss) -> str | None:
        """Return what is wrong with the backend's refusal, None where nothing is."""
        return refused_by_backend(self.row.op, miss, self.backend, self.row.dtype, self.labelled)

    def _enter(self, miss: Miss, title: str, problem: str | Ended | None) -> None:
        """Enter what is wrong with the refusals of the reference and of the backend."""
        own = refused_by_reference(self.row.op, miss)
        if own is not None:
            self.tally.fail("refusals", Failure(own))
        if isinstance(problem, Ended):
            self.tally.fail("refusals", ended(title, problem))
        elif problem is not None:
            self.accepted.add(miss.label)
            self._enter_accepted(miss, problem)

    def _enter_accepted(self, miss: Miss, problem: str) -> None:
        """Enter a call that was not refused as it should be: it is declared, or a failure."""
        met = next((finding for finding in self.findings if finding.label == miss.label), None)
        if met is not None:
            self.tally.declare(met)
            return
        self.tally.fail("refusals", Failure(problem))
        text = self.author.near_miss(miss.label)
        if text not in self.tally.proposed:
            self.tally.proposed.append(text)

    def _compare(self) -> None:
        """Report the findings that no longer hold: the calls that they are about were refused."""
        for finding in self.findings:
            if finding.strict and finding.label not in self.accepted:
                what = f"every call that breaks {finding.label} is refused"
                self.tally.fail("findings", passes(finding, what))
