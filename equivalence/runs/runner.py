"""A row: what it asks of a backend, in which order, and what the answers come to.

A row belongs to one operation, direction and dtype. It asks the page's edges and invalid calls,
the cases of declared findings, and the fixed cases of its design. All of these can be listed before
the first is asked. Then it draws cases, batch after batch, until enough of them count.
Everything follows from the seed. So a row gives the same result alone, in any order and in any
process. Where its process ends, a fresh one goes on after the question that it ended at
(`equivalence.workers.executor`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

from equivalence.backends import BUILT_IN
from equivalence.backends.protocol import Call, Prepares
from equivalence.budgets.findings import Finding, for_row
from equivalence.cases.covering import PAIRS, SINGLES, TRIPLES
from equivalence.cases.declared.inside import Misdeclared, narrowing
from equivalence.measure import foreseen
from equivalence.measure.spent import Spent, reading
from equivalence.runs.choice import kind_of, sized_kind
from equivalence.runs.failure import Failure
from equivalence.runs.kinds import Case, Kind
from equivalence.runs.results import Row, RowResult
from equivalence.runs.row.asking import Asking
from equivalence.runs.row.cases import Cases
from equivalence.runs.row.declarations import Declarations
from equivalence.runs.row.drawn import drawn_batches, first_drawn, least, nearly_all, portions
from equivalence.runs.row.edges import Edges
from equivalence.runs.row.fault import ENDING, fault
from equivalence.runs.row.proposals import Author, Proposals
from equivalence.runs.row.reached import Reached
from equivalence.runs.row.refusals import Refusals
from equivalence.runs.row.tally import Tally
from equivalence.runs.rows import dtypes_of, inside_of, supported
from equivalence.workers import notes
from equivalence.workers.executor import Batch, Executor, LeftOut, TooManyEnded
from equivalence.workers.watched import Watched
from equivalence.worlds.contract import Contract, FormFailed, rungs

T = TypeVar("T")

PROFILES: dict[str, int] = {"quick": 8, "ci": 30, "thorough": 500}
"""How many counted cases each profile asks of a row at least."""

STRENGTHS: dict[str, int] = {"quick": SINGLES, "ci": PAIRS, "thorough": TRIPLES}
"""How many levels of the design of a row meet in each profile: all cases of the design run."""

SIZES = "sizes"
"""The profile of real sizes: a row's large cases, all of them, and nothing else."""


def row_seed(seed: int, row: Row) -> int:
    """Return the seed of a row: the same whatever else runs."""
    digest = hashlib.sha256(f"{seed} {row}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def run_row(backend: Any, row: Row, **options: Any) -> RowResult:
    """Ask what a row asks, batch after batch, and return what the answers come to.

    A row that the backend does not support says so. The options are those of `Examination`. A fault
    of the suite costs the question it is at.
    """
    capabilities = backend.capabilities()
    if not supported(capabilities, row):
        return RowResult(row, "unsupported", ring=capabilities.ring)
    start = reading()
    examination = Examination(backend, row, **options)
    try:
        for batch in examination.batches():
            for question in examination.faultless("the list of cases", batch.questions):
                if batch.enough():
                    break
                try:
                    question.enter(examination.executor.ask(question))
                except LeftOut:
                    continue
                except ENDING:
                    raise
                except Exception as error:
                    examination.tally.fail("faults", fault(question.title, error))
            batch.close()
    except TooManyEnded as stop:
        examination.tally.fail("processes", Failure(str(stop), kind="died"))
    except Misdeclared as error:
        examination.tally.fail("declaration", Failure(str(error)))
    except FormFailed as error:
        examination.tally.fail("faults", Failure(str(error), kind="crash"))
    return examination.result(start)


def run_sized_row(backend: Any, row: Row, **options: Any) -> RowResult:
    """Run the large cases of a row, all of them, and nothing else."""
    capabilities = backend.capabilities()
    if not supported(capabilities, row):
        return RowResult(row, "unsupported", ring=capabilities.ring)
    kind = sized_kind(row, backend, inside=inside_of(capabilities, row))
    return run_row(backend, row, kind=kind, oracle=False, checks=False, **options)


class Examination:
    """One row of one backend: its questions, and what was learned from the answers."""

    def __init__(
        self,
        backend: Any,
        row: Row,
        *,
        counted: int,
        seed: int,
        findings: Sequence[Finding],
        strength: int = SINGLES,
        kind: Kind | None = None,
        oracle: bool = True,
        checks: bool = True,
        address: str | None = None,
        declare: bool = False,
        probing: bool = False,
        together: Sequence[Row] = (),
    ) -> None:
        """Prepare the row; nothing is asked yet.

        counted   how many cases must count
        kind      where its cases come from, if not from the row's design
        oracle    whether there is one: without it nothing is drawn, made smaller or inferred
        checks    whether edges, invalid calls and uncounted cases are asked, too
        address   where the backend can be loaded from again, None where nowhere
        declare   whether the row goes on past failures, and proposes findings that declare them
        probing   whether the first failure is explained by other calls, which takes seconds
        together  the rows whose calls are foreseen with this one's, itself among them
        """
        self.together = together or (row,)
        self.backend, self.row, self.strength = backend, row, strength
        self.counted, self.root, self.seed = counted, seed, row_seed(seed, row)
        self.oracle, self.checks, self.declare, self.probing = oracle, checks, declare, probing
        self.capabilities = backend.capabilities()
        self.contract: Contract = self.capabilities.contract(row.op, row.dtype)
        self.inside = inside_of(self.capabilities, row)
        self.kind = kind_of(row, self.inside) if kind is None else kind
        where = (row.op, row.direction, row.dtype)
        own = for_row(findings, backend.name, *where)
        taken = {of: for_row(findings, of, *where) for of in self.contract.findings}
        self.findings = (*own, *(replace(f, strict=False) for some in taken.values() for f in some))
        excused = (f"{of}: its findings ({len(some)})" for of, some in taken.items() if some)
        stranger = backend.name not in BUILT_IN
        self.granted = (*self.contract.granted, *excused) if stranger else ()
        self.tally, self.executor = Tally(), Executor()
        self.watched = Watched(backend)
        self.author = Author(backend.name, row, self.findings)
        self.known = Declarations(row, self.findings)
        self.proposals: list[Proposals] = []
        self.asking = Asking(self.watched, self.contract, address, self.executor)
        declared = narrowing(self.inside) is not None
        self.reached = Reached(row.op, self.kind, self.asking, self.tally, declared)
        self.cases = self._cases(self.kind)

    def _cases(self, kind: Kind) -> Cases:
        """Return cases of some kind, to be asked in this row."""
        proposals = Proposals(kind) if self.declare else None
        self.proposals += [proposals] if proposals is not None else []
        return Cases(
            kind,
            self.asking,
            self.tally,
            self.known,
            self.reached,
            self.counted,
            shrinking=self.oracle and not self.declare,
            endless=self.declare,
            proposals=proposals,
            probing=self.oracle and self.probing,
        )

    def faultless(self, title: str, of: Iterable[T]) -> Iterator[T]:
        """Yield what there is up to a fault of the suite, and enter the fault."""
        try:
            yield from of
        except ENDING:
            raise
        except Exception as error:
            self.tally.fail("faults", fault(f"{self.row}: {title}", error))

    def prepare(self, calls: Iterable[Call]) -> None:
        """Hand calls to a backend that wants to know them before they are made.

        It is no question: a process that goes on prepares for the calls again.
        """
        if not isinstance(self.backend, Prepares) or self.row.direction not in ("value", "vjp"):
            return
        notes.at(f"{self.row}: preparing")
        try:
            self.watched.prepare([*calls])
        except ENDING:
            raise
        except Exception as error:
            said = f"prepare raised {type(error).__name__}: {error}"
            self.tally.fail("processes", Failure(said, kind="crash"))

    def _foreseen(self) -> Iterator[Call]:
        """Yield the calls of edges, of designs and of what is drawn first; large ones are few."""
        offers = self.capabilities
        for row in self.together if self.checks else ():
            own = row == self.row
            # A fault of the suite in another row is told there.
            with nullcontext() if own else suppress(Exception):
                ahead = kind_of(row, inside_of(offers, row))  # The row's own one counts refusals.
                kind = self.kind if own else ahead
                fixed = self.fixed if own else kind.fixed(self.strength, dtypes_of(offers, row))
                cases = [*kind.extras(), *fixed]
                if self.oracle:
                    seed = row_seed(self.root, row)
                    cases += first_drawn(ahead, fixed, self.counted, seed, self.strength)
                yield from foreseen.of_row(row.op, row.direction, row.dtype, cases, offers)

    def batches(self) -> Iterator[Batch]:
        """Yield all questions of the row, in the order in which they are asked."""
        self.prepare(self.faultless("what is foreseen", self._foreseen()))
        yield from self.listed()
        if self.oracle:
            yield from self.faultless("what is drawn", self.drawn())
        yield from self.faultless("what was refused", self._refused())

    def listed(self) -> Iterator[Batch]:
        """Yield the questions that depend on no answer."""
        if self.checks:
            yield from self.faultless("the checks", self._checks())
        yield from self.faultless("the design", self._design())
        if self.oracle and self.strength >= PAIRS and self.row.direction != "update":
            yield from self.faultless("the large case", self._large())

    def _refused(self) -> Iterator[Batch]:
        """Yield what is asked of refusals, and ask again whether the same calls are taken."""
        yield self.reached.batch()
        if self.inside is not None:
            self.inside.again()

    def _design(self) -> Iterator[Batch]:
        """Yield the cases of the design."""
        yield self.cases.batch("values", self.fixed)

    def _large(self) -> Iterator[Batch]:
        """Yield the one large case."""
        larger = sized_kind(self.row, self.backend, all_of_them=False, inside=self.inside)
        yield self._cases(larger).batch("sizes", larger.fixed(), counting=False)

    def _checks(self) -> Iterator[Batch]:
        """Yield the questions that count no case."""
        parts = (self.watched, self.row, self.tally, self.findings, self.author)
        if self.row.direction in ("value", "vjp"):
            yield Edges(*parts, self.reached, self.inside).batch()
        if self.row.direction == "value":
            yield Refusals(*parts, self.inside).batch()
        if self.oracle:
            yield self.known.batch(self.asking, self.tally, self.inside)
        yield self.cases.batch("extras", self.kind.extras(), counting=False)

    @cached_property
    def fixed(self) -> Sequence[Case]:
        """The cases of the design."""
        return self.kind.fixed(self.strength, dtypes_of(self.capabilities, self.row))

    def drawn(self) -> Iterator[Batch]:
        """Yield drawn cases, until enough cases count or enough have failed."""
        wanted = least(self.counted, self.tally.counted, self.strength)

        def enough() -> bool:
            return self.cases.enough("values") or self.tally.counted >= wanted

        for cases in drawn_batches(self.kind, self.fixed, self.counted, self.seed, enough):
            for some in portions(cases):
                if not enough():
                    self.prepare(foreseen.of_cases(some, self.capabilities))
                    yield self.cases.batch("values", some, enough=enough)
        if self.kind.refused and not enough():
            self.tally.left_out[nearly_all(self.kind.refused)] = None

    def result(self, start: Spent) -> RowResult:
        """Sum the row up, which began at this reading of the clock."""
        tally = self.tally
        for alike, count in self.executor.left_out.items():
            what = f"cases of {alike}" if alike else "other questions"
            tally.left_out[f"{count} {what}, at one of which a process ended"] = None
        partial = None if tally.failed else self.reached.partial()
        status = tally.status(self.counted, partial is not None)
        proposed = self._proposed()
        for case in (case for proposals in self.proposals for case in proposals.unrepeated):
            tally.left_out[f"a finding about {case}, which passed when it was put again"] = None
        return RowResult(
            row=self.row,
            status="error" if tally.crashed else status,
            beside=status if tally.crashed and tally.judged else "",
            cases=tally.counted,
            worst_fraction=tally.worst,
            page_fraction=tally.page,
            freedom=self.contract.allows,
            contract=self.contract.name,
            inferred=self._inferred(),
            ring=self.capabilities.ring,
            judged=tally.judged,
            unconstrained=tally.unconstrained,
            wide=tally.wide,
            failures=tally.shown(),
            declared=tuple(finding.to_dict() for finding in tally.declared),
            left_out=tuple(tally.left_out),
            granted=self.granted,
            discarded=self.kind.refused.total() if self.oracle else 0,
            partial=partial,
            notes=tuple(tally.notes),
            proposed=proposed,
            spent=reading() - start,
        )

    def _inferred(self) -> str:
        """Return the tightest rung of the ladder that a sample of the row's cases satisfies.

        The declared rung needs no sample where no case was over budget: all were judged by it.
        """
        sample = self.tally.sample
        if not (self.oracle and sample) or self.executor.exhausted:
            return "-"
        for rung in rungs(self.contract):
            if not self.tally.over and rung.name == self.contract.rung:
                return rung.name
            measured = (
                self.asking.measure(self.kind, case, rung.contract, rung.name) for case in sample
            )
            if not any(outcome.failed for outcome in measured):
                return rung.name
        return "none"

    def _proposed(self) -> tuple[str, ...]:
        """Return findings that would declare what failed, where they are asked for."""
        if not self.declare:
            return ()
        if self.executor.exhausted:
            return tuple(self.tally.proposed)
        from equivalence.cases.shrink import smallest

        found: list[str] = list(self.tally.proposed)
        for proposals in self.proposals:
            measure = partial(self.asking.measure, proposals.kind)
            found += proposals.tables(self.author, measure, smallest)
        return tuple(found)
