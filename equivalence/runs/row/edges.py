"""The edge rows of a page, put to a backend: what it gives at NaN, infinities and empty axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from equivalence.budgets.findings import Finding
from equivalence.cases.declared.calls import call_types
from equivalence.cases.declared.inside import Inside
from equivalence.cases.edges import call_shapes, edge_problem, edges, plain_call
from equivalence.runs.failure import Failure
from equivalence.runs.results import Row
from equivalence.runs.row.asking import ended
from equivalence.runs.row.declarations import passes
from equivalence.runs.row.proposals import Author
from equivalence.runs.row.reached import Reached
from equivalence.runs.row.tally import Tally
from equivalence.workers.executor import Batch, Question
from equivalence.workers.notes import Ended
from spec.op import Edge

LEFT_OUT = "refused: "
"""How the answer of a backend begins that refuses an edge as not implemented."""


class Edges:
    """The edge rows of one row of a run, and the findings about them."""

    def __init__(
        self,
        backend: Any,
        row: Row,
        tally: Tally,
        findings: Sequence[Finding],
        author: Author,
        reached: Reached,
        inside: Inside | None = None,
    ) -> None:
        """Remember whom to ask and where to enter the answers; the findings speak of the row.

        inside says which edges the backend takes, if not all.
        """
        self.reached, self.inside = reached, inside
        self.backend, self.row, self.tally, self.author = backend, row, tally, author
        self.findings = [finding for finding in findings if finding.kind == "edge"]
        self.capabilities = backend.capabilities()

    def batch(self) -> Batch:
        """Return a question for each edge row."""
        every = edges(self.row.op, self.row.direction)
        return Batch(self._question(edge) for edge in every if self._taken(edge))

    def _taken(self, edge: Edge) -> bool:
        """Say whether the backend takes the call of an edge."""
        if self.inside is None:
            return True
        inputs, made = call_shapes(self.row.op, edge)
        where = (self.row.op, self.row.direction, self.row.dtype, inputs, edge.attributes, made)
        return self.inside.takes(call_types(*where, ("contiguous",) * len(inputs)))

    def _question(self, edge: Edge) -> Question[str | None]:
        """Ask what is wrong at an edge."""
        title = f"edge {edge.why!r}"
        return Question(
            f"edge {edge}", title, partial(self._problem, edge), partial(self._enter, edge, title)
        )

    def _problem(self, edge: Edge) -> str | None:
        """Return what is wrong at an edge, None where nothing is; an exception is wrong, too."""
        try:
            return edge_problem(
                self.backend,
                self.row.op,
                edge,
                self.row.dtype,
                self.capabilities.device,
                self.capabilities.conventions,
            )
        except NotImplementedError as error:
            return f"{LEFT_OUT}{type(error).__name__}: {error}"
        except Exception as error:
            return f"edge {edge.why!r}: raised {type(error).__name__}: {error}"

    def _enter(self, edge: Edge, title: str, problem: str | Ended | None) -> None:
        """Enter what is wrong at an edge: it is declared, or a failure."""
        if isinstance(problem, Ended):
            self.tally.fail("edges", ended(title, problem))
            return
        if problem is not None and problem.startswith(LEFT_OUT):
            self._enter_refused(edge, title, problem.removeprefix(LEFT_OUT))
            return
        known = [finding for finding in self.findings if finding.edge == edge.why]
        if problem is None:
            for finding in known:
                if finding.strict:
                    self.tally.fail("findings", passes(finding, title))
            return
        gave = given(problem)
        met = next((f for f in known if gave is not None and f.gave == gave), None)
        if met is not None:
            self.tally.declare(met)
            return
        self.tally.fail("edges", Failure(problem))
        if gave is not None:
            self.tally.proposed.append(self.author.edge(edge.why, gave))

    def _enter_refused(self, edge: Edge, title: str, words: str) -> None:
        """Enter an edge that is refused: it is left out, unless the backend declares to take it."""
        if self.inside is None:
            row = self.row
            self.reached.leave_out(plain_call(row.op, edge, row.direction, row.dtype), words)
        else:
            self.tally.fail("edges", Failure(f"declared, then refused: {title}", (words,)))


def given(problem: str) -> str | None:
    """Return the wrong result that an edge's problem shows, None where it shows none."""
    _, found, rest = problem.partition(" gave ")
    return rest.partition("; allowed: ")[0] if found else None
