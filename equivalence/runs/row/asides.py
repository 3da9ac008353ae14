"""What a row asks beside its cases: the edge rows of the page, and the calls that it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from equivalence.budgets.findings import Finding
from equivalence.cases.edges import edge_problem, edges
from equivalence.cases.nearmiss import describe, refused_by_backend, refused_by_reference
from equivalence.registry import OPS
from equivalence.runs.results import Failure, Row
from equivalence.runs.row.declarations import passes
from equivalence.runs.row.proposals import Author
from equivalence.runs.row.tally import Tally
from equivalence.workers import notes
from spec.op import Edge
from spec.refusals import Miss

Ask = Callable[[str, str, Callable[[], str | None]], "str | notes.Ended | None"]
"""Puts a question: its text in any process, what a reader is told, and how it is answered."""


class Asides:
    """The edges and the near-misses of a row, put to a backend and entered in its tally."""

    def __init__(
        self, backend: Any, row: Row, tally: Tally, findings: Sequence[Finding], ask: Ask
    ) -> None:
        """Collect what they need; findings are those that speak of the row."""
        self.backend, self.row, self.tally = backend, row, tally
        self.findings, self.ask = findings, ask
        self.capabilities = backend.capabilities()
        self.author = Author(backend.name, row, findings)
        self.proposed: list[str] = []

    def edges(self) -> None:
        """Judge the page's edge rows."""
        for edge in edges(self.row.op, self.row.direction):
            title = f"edge {edge.why!r}"
            asked = f"edge {edge}"
            problem = self.ask(asked, title, partial(self._edge_problem, edge))
            if isinstance(problem, notes.Ended):
                self.tally.fail("edges", ended(title, problem))
                continue
            known = [f for f in self.findings if f.kind == "edge" and f.edge == edge.why]
            if problem is None:
                for finding in known:
                    self._passes(finding, title)
                continue
            gave = given(problem)
            met = next((f for f in known if gave is not None and f.gave == gave), None)
            if met is not None:
                self.tally.declare(met)
                continue
            self.tally.fail("edges", Failure(problem))
            if gave is not None:
                self.proposed.append(self.author.edge(edge.why, gave))

    def _edge_problem(self, edge: Edge) -> str | None:
        """Return what is wrong at an edge, an exception included."""
        try:
            return edge_problem(
                self.backend,
                self.row.op,
                edge,
                self.row.dtype,
                self.capabilities.device,
                self.capabilities.conventions,
            )
        except Exception as error:
            return f"edge {edge.why!r}: raised {type(error).__name__}: {error}"

    def near_misses(self) -> None:
        """Ask the reference and the backend to refuse what breaks one constraint."""
        accepted: set[str] = set()
        op = self.row.op
        for miss in OPS[op].refused:
            title = describe(op, miss)
            problem = refused_by_reference(op, miss)
            if problem is not None:
                self.tally.fail("refusals", Failure(problem))
            found = self.ask(f"near-miss {title}", title, partial(self._refused, miss))
            if isinstance(found, notes.Ended):
                self.tally.fail("refusals", ended(title, found))
            elif found is not None:
                accepted.add(miss.label)
                self._accepted(miss, found)
        for finding in self.findings:
            if finding.kind == "near-miss" and finding.label not in accepted:
                self._passes(finding, f"every call that breaks {finding.label} is refused")

    def _refused(self, miss: Miss) -> str | None:
        """Return what is wrong with the backend's refusal."""
        return refused_by_backend(
            self.row.op, miss, self.backend, self.row.dtype, self.capabilities.labelled
        )

    def _accepted(self, miss: Miss, problem: str) -> None:
        """Enter a call that was not refused as it should be: declared, or a failure."""
        about = (f for f in self.findings if f.kind == "near-miss" and f.label == miss.label)
        met = next(about, None)
        if met is not None:
            self.tally.declare(met)
            return
        self.tally.fail("refusals", Failure(problem))
        text = self.author.near_miss(miss.label)
        if text not in self.proposed:
            self.proposed.append(text)

    def _passes(self, finding: Finding, what: str) -> None:
        """Report a declared finding that no longer fails."""
        self.tally.fail("findings", passes(finding, what))


def ended(title: str, how: notes.Ended, details: Sequence[str] = ()) -> Failure:
    """Return the failure that a question is at which the process ended, or was ended."""
    kind = "late" if how.late else "died"
    what = f"the call {how.how}" if how.late else f"the process {how.how}"
    return Failure(title, (what, *details), kind=kind)


def given(problem: str) -> str | None:
    """Return the wrong result that an edge's problem shows; None where it shows none."""
    _, found, rest = problem.partition(" gave ")
    return rest.partition("; allowed: ")[0] if found else None
