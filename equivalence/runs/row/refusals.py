"""The invalid calls of a page, put to a backend: it must refuse each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from equivalence.budgets.findings import Finding
from equivalence.cases.declared.inside import Inside
from equivalence.cases.nearmiss import (
    ACCEPTED,
    REFUSED,
    WROTE,
    describe,
    misses,
    passes_a_range,
    reaction,
    refused_by_reference,
    shapes_of,
    words_of_reference,
)
from equivalence.runs.failure import Failure
from equivalence.runs.results import Note, Row
from equivalence.runs.row.asking import ended
from equivalence.runs.row.declarations import passes
from equivalence.runs.row.proposals import Author
from equivalence.runs.row.tally import Tally
from equivalence.workers.executor import Batch, Question
from equivalence.workers.notes import Ended
from spec.refusals import Miss


class Refusals:
    """The invalid calls of one row of a run, and the findings about them.

    A backend that accepts one gets a note with the words of the page, or a failure if it says that
    it checks constraints. An index out of range is a failure, too, unless the backend says that
    it checks none: it is then given none.
    """

    def __init__(
        self,
        backend: Any,
        row: Row,
        tally: Tally,
        findings: Sequence[Finding],
        author: Author,
        inside: Inside | None = None,
    ) -> None:
        """Remember whom to ask and where to enter the answers; the findings speak of the row.

        inside says which calls the backend takes, if not all.
        """
        self.backend, self.row, self.tally, self.author = backend, row, tally, author
        self.findings = [finding for finding in findings if finding.kind == "near-miss"]
        self.capabilities = backend.capabilities()
        self.inside = inside
        self.seen: set[str] = set()
        self.asked: set[str] = set()
        self.noted: set[str] = set()

    def batch(self) -> Batch:
        """Return a question for each invalid call that the backend may be asked."""
        return Batch(self._questions(), close=self._compare)

    def _questions(self) -> Iterator[Question[Any]]:
        for miss in misses(self.row.op):
            if not self._taken(miss):
                continue
            if self.capabilities.unchecked_indices and passes_a_range(self.row.op, miss):
                self._note_unchecked(miss)
                continue
            self.asked.add(miss.label)
            yield self._question(miss)

    def _taken(self, miss: Miss) -> bool:
        """Say whether the backend takes calls of these types."""
        inside = self.inside
        return inside is None or inside.takes_invalid(self.row.op, shapes_of(miss), miss.attributes)

    def _question(self, miss: Miss) -> Question[Any]:
        """Ask what the backend does with a call."""
        title = describe(self.row.op, miss)
        return Question(
            f"near-miss {title}",
            title,
            partial(self._reaction, miss),
            partial(self._enter, miss, title),
        )

    def _reaction(self, miss: Miss) -> tuple[str, str]:
        """Return what the backend does, and what is wrong with it."""
        offers = self.capabilities
        where = (self.row.op, miss, self.backend, self.row.dtype)
        return reaction(*where, offers.labelled, offers.device)

    def _enter(self, miss: Miss, title: str, answer: Sequence[str] | Ended) -> None:
        """Enter what is wrong with the refusals of the reference and of the backend."""
        own = refused_by_reference(self.row.op, miss)
        if own is not None:
            self.tally.fail("refusals", Failure(own))
        if isinstance(answer, Ended):
            self.tally.fail("refusals", ended(title, answer))
            return
        what, problem = answer
        if what == WROTE:
            self.tally.fail("refusals", Failure(problem))
        elif what != REFUSED:
            self.seen.add(miss.label)
            self._enter_accepted(miss, what, problem)

    def _enter_accepted(self, miss: Miss, what: str, problem: str) -> None:
        """Enter a call that was not refused as it should be: declared, a note, or a failure."""
        met = next((finding for finding in self.findings if finding.label == miss.label), None)
        if met is not None:
            self.tally.declare(met)
            return
        said = words_of_reference(self.row.op, miss)
        strict = self.capabilities.checks_constraints or passes_a_range(self.row.op, miss)
        if what == ACCEPTED and not strict:
            self._note(miss.label, f"{problem}; the page says: {said}")
            return
        self.tally.fail("refusals", Failure(problem, (f"the page says: {said}",)))
        text = self.author.near_miss(miss.label)
        if text not in self.tally.proposed:
            self.tally.proposed.append(text)

    def _note_unchecked(self, miss: Miss) -> None:
        """Say that nobody knows what an index out of range does."""
        said = words_of_reference(self.row.op, miss)
        text = f"indices are unchecked, so that none out of range was tried; the page says: {said}"
        self._note(miss.label, text, loud=True)

    def _note(self, label: str, text: str, loud: bool = False) -> None:
        """Enter a note, the first one of a constraint."""
        if label not in self.noted:
            self.noted.add(label)
            self.tally.notes.append(Note(text, loud))

    def _compare(self) -> None:
        """Report the findings that no longer hold: the calls that they are about were refused."""
        for finding in self.findings:
            if finding.strict and finding.label in self.asked - self.seen:
                what = f"every call that breaks {finding.label} is refused"
                self.tally.fail("findings", passes(finding, what))
