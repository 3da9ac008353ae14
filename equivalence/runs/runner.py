"""A row: edges, near-misses, fixed strata, then drawn cases until enough of them count.

A row belongs to one operation, direction and dtype.  Everything in it follows from the seed, so a
row gives the same result alone, in any order and in any process.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from equivalence.budgets.findings import Finding, for_row
from equivalence.budgets.outcome import Outcome
from equivalence.cases.call import counts
from equivalence.cases.covering import PAIRS, SINGLES, TRIPLES
from equivalence.cases.edges import edge_problem, edges
from equivalence.cases.nearmiss import describe, refused_by_backend, refused_by_reference
from equivalence.runs.address import replay_line
from equivalence.runs.kinds import Case, Kind, kind_of, read_case, shows
from equivalence.runs.results import Failure, Row, RowResult, status_of
from equivalence.workers import notes
from equivalence.worlds.contract import Contract, rungs
from spec.ops import OPS

if TYPE_CHECKING:
    from equivalence.backends.protocol import Capabilities

PROFILES: dict[str, int] = {"quick": 8, "ci": 30, "thorough": 500}
"""How many counted cases each profile asks of a row at least."""

STRENGTHS: dict[str, int] = {"quick": SINGLES, "ci": PAIRS, "thorough": TRIPLES}
"""How many levels of the design of a row meet in each profile: all cases of the design run."""

DRAWN = 8  # beside a design of pairs or more, so many counted cases

SAMPLE = 4
"""How many cases decide which rung of the ladder a backend's results satisfy."""

MOST_FAILURES = 3
"""How many failing cases a row reports; it stops drawing after as many."""


@dataclass
class Tally:
    """What a row has seen so far."""

    counted: int = 0
    judged: int = 0
    unconstrained: int = 0
    worst: float | None = None
    failures: list[Failure] = field(default_factory=list)
    excused: int = 0
    declared: list[Finding] = field(default_factory=list)
    sample: list[Case] = field(default_factory=list)

    def add(self, case: Case, outcome: Outcome) -> None:
        """Enter one measured case."""
        self.judged += outcome.judged
        self.unconstrained += outcome.unconstrained
        if counts(outcome.judged) and shows(case, outcome.differing):
            self.counted += 1
            if len(self.sample) < SAMPLE:
                self.sample.append(case)
        self.see(outcome.fraction)

    def see(self, fraction: float | None) -> None:
        """Keep the worst fraction."""
        if fraction is not None and (self.worst is None or fraction > self.worst):
            self.worst = fraction

    def declare(self, finding: Finding) -> None:
        """Enter a finding that was met."""
        if finding not in self.declared:
            self.declared.append(finding)


def row_seed(seed: int, row: Row) -> int:
    """Return the seed of a row: the same whatever else runs."""
    digest = hashlib.sha256(f"{seed} {row}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def describe_failure(
    kind: Kind, backend: str, case: Case, outcome: Outcome, address: str | None
) -> Failure:
    """Put a failing case in words; the address is where the backend can be loaded from."""
    details: list[str] = []
    if outcome.crash is not None:
        details.append(f"{backend} raised {outcome.crash}")
    if outcome.problem is not None:
        details.append(outcome.problem)
    if outcome.detail is not None:
        details.append(outcome.detail.line())
    details.extend(
        f"{name}: {recipe.regime}, {recipe.layout}, seed {recipe.seed}"
        for name, recipe in kind.recipes(case)
    )
    replay = replay_line(address, case.to_json())
    return Failure(kind.describe(case), tuple(details), replay, outcome.crash is not None)


class RowRunner:
    """Runs one row of one backend."""

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
        address: str | None = None,
    ) -> None:
        """Collect what the row needs.

        The address is where the backend can be loaded from again, None where nowhere.
        Without an oracle, cases come recorded in their kind: nothing is drawn, shrunk or inferred.
        """
        self.backend = backend
        self.row = row
        self.counted = counted
        self.strength = strength
        self.seed = row_seed(seed, row)
        self.capabilities = backend.capabilities()
        self.contract: Contract = self.capabilities.contract(row.op, row.dtype)
        self.findings = for_row(findings, backend.name, row.op, row.direction, row.dtype)
        self.kind = kind_of(row) if kind is None else kind
        self.oracle = oracle
        self.address = address
        self.shrink = oracle
        self.tally = Tally()

    def run(self) -> RowResult:
        """Run the whole row."""
        start = time.perf_counter()
        if self.row.direction in ("value", "vjp"):
            self._edges()
        if self.row.direction == "value":
            self._near_misses()
        if self.oracle:
            self._findings()
        self._cases(self.kind.extras(), None, counting=False)
        fixed = self.kind.fixed(self.strength)
        self._cases(fixed, None)
        if self.oracle:
            wanted = least(self.counted, self.tally.counted, self.strength)
            self._cases(drawn_cases(self.kind, fixed, self.counted, self.seed), wanted)
        return self._result(time.perf_counter() - start)

    def _edges(self) -> None:
        """Judge the page's edge rows."""
        for edge in edges(self.row.op, self.row.direction):
            notes.at(f"edge {edge.why!r}")
            try:
                problem = edge_problem(
                    self.backend, self.row.op, edge, self.row.dtype, self.capabilities.device
                )
            except Exception as error:
                problem = f"edge {edge.why!r}: raised {type(error).__name__}: {error}"
            self._settle(problem, self._about("edge", edge.why), f"edge {edge.why!r}")

    def _near_misses(self) -> None:
        """Ask the reference and the backend to refuse what breaks one constraint."""
        accepted: set[str] = set()
        op = self.row.op
        for miss in OPS[op].refused:
            notes.at(describe(op, miss))
            problem = refused_by_reference(op, miss)
            if problem is not None:
                self.tally.failures.append(Failure(problem))
            problem = refused_by_backend(
                op, miss, self.backend, self.row.dtype, self.capabilities.labelled
            )
            if problem is not None:
                accepted.add(miss.label)
                self._settle(problem, self._about("near-miss", miss.label), describe(op, miss))
        for finding in self.findings:
            if finding.kind == "near-miss" and finding.label not in accepted:
                self._unexpected(finding, f"every call that breaks {finding.label} is refused")

    def _about(self, kind: str, label: str) -> list[Finding]:
        """Return the findings about an edge row or about a constraint."""
        return [f for f in self.findings if f.kind == kind and label in (f.edge, f.label)]

    def _settle(self, problem: str | None, known: Sequence[Finding], what: str) -> None:
        """Enter a problem as a failure or as declared; a declaration without one is a failure."""
        if problem is not None and known:
            self.tally.declare(known[0])
        elif problem is not None:
            self.tally.failures.append(Failure(problem))
        elif known:
            self._unexpected(known[0], what)

    def _unexpected(self, finding: Finding, what: str) -> None:
        """Report a declared finding that no longer fails."""
        self.tally.failures.append(
            Failure(f"declared finding passes: {what}", (f"declared as: {finding.reason}",))
        )

    def _findings(self) -> None:
        """Replay the minimal case of every declared finding: it must still fail."""
        for finding in self.findings:
            if finding.kind != "case" or finding.case is None:
                continue
            row, case = read_case(finding.case)
            if row == self.row and not self._measure(case).failed:
                self._unexpected(finding, self.kind.describe(case))

    def _cases(self, cases: Iterable[Case], wanted: int | None, counting: bool = True) -> None:
        """Measure cases until enough of them count (None: all of them), or without counting."""
        for case in cases:
            enough = wanted is not None and self.tally.counted >= wanted
            if enough or len(self.tally.failures) >= MOST_FAILURES:
                return
            outcome = self._measure(case)
            if outcome.failed:
                self._failed(case, outcome)
            if counting:
                self.tally.add(case, outcome)
            else:
                self.tally.see(outcome.fraction)

    def _failed(self, case: Case, outcome: Outcome) -> None:
        """Enter a failing case: declared, or shrunk to the smallest that fails undeclared."""
        finding = self._declares(case, outcome)
        if finding is not None:
            self.tally.declare(finding)
            self.tally.excused += 1
            return
        if self.shrink:
            self.shrink = False
            case, outcome = self._shrunk(case, outcome)
        self.tally.failures.append(self._describe(case, outcome))

    def _describe(self, case: Case, outcome: Outcome) -> Failure:
        return describe_failure(self.kind, self.backend.name, case, outcome, self.address)

    def _measure(self, case: Case, contract: Contract | None = None) -> Outcome:
        """Run a case and judge it, by another contract where one is given."""
        notes.at(f"{self.kind.describe(case)}; {replay_line(self.address, case.to_json())}")
        return self.kind.measure(self.backend, case, contract or self.contract)

    def _declares(self, case: Case, outcome: Outcome) -> Finding | None:
        """Return the finding that covers a failing case, if one does; it never covers a crash."""
        if outcome.detail is None:
            return None
        regimes = [recipe.regime for _, recipe in self.kind.recipes(case)]
        got = outcome.detail.got
        return next((f for f in self.findings if f.kind == "case" and f.covers(regimes, got)), None)

    def _shrunk(self, case: Case, outcome: Outcome) -> tuple[Case, Outcome]:
        """Return the smallest case below a failing one that fails and is not declared."""
        from equivalence.cases.shrink import smallest

        seen = {case: outcome}

        def fails(candidate: Case) -> bool:
            if candidate not in seen:
                seen[candidate] = self._measure(candidate)
            outcome = seen[candidate]
            return outcome.failed and self._declares(candidate, outcome) is None

        found = smallest(case, fails, self.kind.smaller)
        return found, seen[found]

    def _result(self, seconds: float) -> RowResult:
        """Sum the row up."""
        tally = self.tally
        crashed = any(failure.crash for failure in tally.failures)
        excused = bool(tally.excused) and not tally.failures
        status = status_of(
            failed=bool(tally.failures or tally.excused),
            crashed=crashed,
            counted=tally.counted,
            wanted=self.counted,
            judged=tally.judged,
            unconstrained=tally.unconstrained,
        )
        return RowResult(
            row=self.row,
            status=status,
            cases=tally.counted,
            worst_fraction=tally.worst,
            contract=self.contract.name,
            inferred=self._inferred(status),
            ring=self.capabilities.ring,
            judged=tally.judged,
            unconstrained=tally.unconstrained,
            failures=tuple(tally.failures[:MOST_FAILURES]),
            declared=tuple(finding.to_dict() for finding in tally.declared),
            excused=excused and status == "nonconformant",
            seconds=seconds,
        )

    def _inferred(self, status: str) -> str:
        """Return the tightest rung of the ladder that a sample of the row's cases satisfies.

        The declared rung of a conformant row has been checked on all its cases already.
        """
        if not (self.oracle and self.tally.sample):
            return "-"
        for rung in rungs(self.contract):
            if status == "conformant" and rung.name == self.contract.rung:
                return rung.name
            if not any(self._fails(case, rung.contract) for case in self.tally.sample):
                return rung.name
        return "none"

    def _fails(self, case: Case, contract: Contract) -> bool:
        """Say whether a case fails under the contract of some rung."""
        return self._measure(case, contract).failed


def least(counted: int, fixed: int, strength: int) -> int:
    """Return how many cases must count when enough are drawn, where so many fixed ones do."""
    return max(counted, fixed + (DRAWN if strength > SINGLES else 0))


def drawn_cases(kind: Kind, fixed: Sequence[Case], counted: int, seed: int) -> Iterator[Case]:
    """Draw distinct cases with Hypothesis, in batches, for as long as they are wanted."""
    from equivalence.cases.strategies import draw_many

    strategy = kind.drawn()
    seen = set(fixed)
    for batch in range(8):
        for case in draw_many(strategy, 2 * counted, seed + batch):
            if case not in seen:
                seen.add(case)
                yield case


def supported(capabilities: Capabilities, row: Row) -> bool:
    """Say whether a backend offers a row at all."""
    offered = capabilities.optimizers if row.direction == "update" else capabilities.ops
    return row.dtype in offered.get(row.op, ())


def run_row(backend: Any, row: Row, **options: Any) -> RowResult:
    """Run a row; what the backend does not support is said so."""
    capabilities = backend.capabilities()
    if not supported(capabilities, row):
        return RowResult(row, "unsupported", ring=capabilities.ring)
    return RowRunner(backend, row, **options).run()
