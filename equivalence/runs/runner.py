"""A row: edges, near-misses, fixed strata, then drawn cases until enough of them count.

A row belongs to one operation, direction and dtype.  Everything in it follows from the seed, so a
row gives the same result alone, in any order and in any process; and where its process ends, a
fresh one goes on behind the question that it ended at (`equivalence.workers.notes`).
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from equivalence.budgets.findings import Finding, for_row
from equivalence.budgets.outcome import Outcome
from equivalence.cases.covering import PAIRS, SINGLES, TRIPLES
from equivalence.cases.fills import EVERY, NONFINITE, VANISHING
from equivalence.measure.spent import Spent, reading
from equivalence.runs.kinds import Case, Kind, kind_of, sized_kind
from equivalence.runs.results import Failure, Row, RowResult, status_of
from equivalence.runs.row.asides import Asides
from equivalence.runs.row.asking import Asking, TooManyEnded
from equivalence.runs.row.declarations import Declarations
from equivalence.runs.row.proposals import Proposals
from equivalence.runs.row.tally import MOST_FAILURES, Tally
from equivalence.worlds.contract import Contract, rungs

if TYPE_CHECKING:
    from equivalence.backends.protocol import Capabilities

PROFILES: dict[str, int] = {"quick": 8, "ci": 30, "thorough": 500}
"""How many counted cases each profile asks of a row at least."""

STRENGTHS: dict[str, int] = {"quick": SINGLES, "ci": PAIRS, "thorough": TRIPLES}
"""How many levels of the design of a row meet in each profile: all cases of the design run."""

DRAWN = 8  # beside a design of pairs or more, so many counted cases

LONGEST_SHRINK = 60.0
"""For how many seconds a failure is made smaller, however slow its calls are."""


def row_seed(seed: int, row: Row) -> int:
    """Return the seed of a row: the same whatever else runs."""
    digest = hashlib.sha256(f"{seed} {row}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


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
        declare: bool = False,
    ) -> None:
        """Collect what the row needs.

        The address is where the backend can be loaded from again, None where nowhere.
        Without an oracle, cases come recorded in their kind: nothing is drawn, shrunk or inferred.
        To declare is to go on past failures, and to propose a finding for each kind of them.
        """
        self.backend = backend
        self.row = row
        self.counted = counted
        self.strength = strength
        self.seed = row_seed(seed, row)
        self.capabilities = backend.capabilities()
        self.contract: Contract = self.capabilities.contract(row.op, row.dtype)
        found = for_row(findings, backend.name, row.op, row.direction, row.dtype)
        self.kind = kind_of(row) if kind is None else kind
        self.oracle = oracle
        self.declare = declare
        self.shrunk: set[tuple[str, bool]] = set()
        self.tally = Tally()
        self.asking = Asking(backend, self.kind, self.contract, address)
        self.known = Declarations(row, self.kind, found)
        self.asides = Asides(self.asking.backend, row, self.tally, found, self.asking.ask)
        self.proposals = Proposals(self.kind)

    def run(self) -> RowResult:
        """Run the whole row."""
        start = reading()
        try:
            self._questions()
        except TooManyEnded as stop:
            self.tally.fail("processes", Failure(str(stop), kind="died"))
        return self._result(start)

    def _questions(self) -> None:
        """Ask all that is asked of a row."""
        if self.row.direction in ("value", "vjp"):
            self.asides.edges()
        if self.row.direction == "value":
            self.asides.near_misses()
        if self.oracle:
            for failure in self.known.failures(self.asking):
                self.tally.fail("findings", failure)
        self._cases("extras", self.kind.extras(), counting=False)
        fixed = self.kind.fixed(self.strength, dtypes_of(self.capabilities, self.row))
        self._cases("values", fixed)
        if self.oracle:
            self._larger()
            wanted = least(self.counted, self.tally.counted, self.strength)

            def enough() -> bool:
                return self._enough("values") or self.tally.counted >= wanted

            drawn = drawn_cases(self.kind, fixed, self.counted, self.seed, enough)
            self._cases("values", drawn)
            if self.kind.refused and not enough():
                self.tally.left_out[nearly_all(self.kind.refused)] = None

    def _larger(self) -> None:
        """Judge a case that lies beyond the fixed strata, uncounted, by arrays."""
        if self.strength < PAIRS or self.row.direction == "update":
            return
        sized = sized_kind(self.row, self.backend, all_of_them=False)
        kind, self.known.kind = self.known.kind, sized
        with self.asking.judging(sized):
            self._cases("sizes", sized.fixed(), counting=False)
        self.known.kind = kind

    def _cases(self, slot: str, cases: Iterable[Case], counting: bool = True) -> None:
        """Measure cases until there are failures enough, counted or not."""
        for case in cases:
            if self._enough(slot):
                return
            outcome = self.asking.measure(case)
            self.tally.left_out.update(dict.fromkeys(outcome.left_out))
            if outcome.failed:
                self._failed(slot, case, outcome)
            if counting:
                self.tally.add(case, outcome, self._lies_at_an_end(case))
            else:
                self.tally.see(outcome)

    def _lies_at_an_end(self, case: Case) -> bool:
        """Say whether some tensor of a case holds what is not finite, or just so, or vanishes."""
        ends = (*NONFINITE, *VANISHING, EVERY)
        return any(recipe.regime in ends for _, recipe in self.asking.kind.recipes(case))

    def _enough(self, slot: str) -> bool:
        """Say whether a slot has as many failures as anybody wants to read."""
        if self.declare:
            return False
        most = max(self.counted, MOST_FAILURES)
        return self.tally.wrong(slot) >= MOST_FAILURES or self.tally.crashes(slot) >= most

    def _failed(self, slot: str, case: Case, outcome: Outcome) -> None:
        """Enter a failing case: declared, or shrunk to the smallest that fails undeclared."""
        left = self.known.undeclared(case, outcome)
        if left == []:
            for finding in self.known.met(case, outcome):
                self.tally.declare(finding)
            return
        if self.declare and left is not None and slot != "sizes":
            self.proposals.add(case, left)
        crash = outcome.crash is not None
        first = (slot, crash) not in self.shrunk
        if self.oracle and first and not outcome.end and not self.declare:
            self.shrunk.add((slot, crash))
            case, outcome = self._shrunk(slot, case, outcome)
        self.tally.fail(slot, self.asking.describe(case, outcome))

    def _shrunk(self, slot: str, case: Case, outcome: Outcome) -> tuple[Case, Outcome]:
        """Return the smallest case below a failing one that fails likewise and undeclared.

        A process that ends meanwhile is a failure of its own.
        """
        seen = {case: outcome}
        crash, start = outcome.crash is not None, time.monotonic()

        def fails(candidate: Case) -> bool:
            if candidate not in seen:
                if self.asking.done or time.monotonic() - start > LONGEST_SHRINK:
                    return False
                seen[candidate] = self.asking.measure(candidate)
                if seen[candidate].end:
                    self.tally.fail(slot, self.asking.describe(candidate, seen[candidate]))
            found = seen[candidate]
            likewise = found.failed and not found.end and (found.crash is not None) == crash
            return likewise and self.known.undeclared(candidate, found) != []

        from equivalence.cases.shrink import smallest

        found = smallest(case, fails, self.asking.kind.smaller)
        return found, seen[found]

    def _result(self, start: Spent) -> RowResult:
        """Sum the row up."""
        tally = self.tally
        decided: dict[str, Any] = {
            "failed": tally.failed,
            "counted": tally.counted,
            "wanted": self.counted,
            "declared": bool(tally.declared),
        }
        # One long case may be open, or one of few: a row says too little where both shares are.
        shares: tuple[dict[str, Any], ...] = (
            {
                "judged": tally.judged,
                "unconstrained": tally.unconstrained - tally.at_ends,
                "wide": tally.wide,
            },
            {
                "judged": tally.shares - tally.open,
                "unconstrained": tally.open,
                "wide": tally.broad,
            },
        )
        found = [status_of(crashed=False, **decided, **share) for share in shares]
        beside = found[1] if found[0] == "ambiguous" else found[0]
        return RowResult(
            row=self.row,
            status="error" if tally.crashed else beside,
            beside=beside if tally.crashed and tally.judged else "",
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
            discarded=self.kind.refused.total() if self.oracle else 0,
            proposed=self._proposed(),
            spent=reading() - start,
        )

    def _inferred(self) -> str:
        """Return the tightest rung of the ladder that a sample of the row's cases satisfies.

        The declared rung has been checked on all cases already, where none is over budget.
        """
        if not (self.oracle and self.tally.sample) or self.asking.done:
            return "-"
        for rung in rungs(self.contract):
            if not self.tally.over and rung.name == self.contract.rung:
                return rung.name
            sample = self.tally.sample
            if not any(
                self.asking.measure(case, rung.contract, rung.name).failed for case in sample
            ):
                return rung.name
        return "none"

    def _proposed(self) -> tuple[str, ...]:
        """Return findings that would declare what failed, where they are asked for."""
        if not self.declare:
            return ()
        from equivalence.cases.shrink import smallest

        cases = self.proposals.tables(self.asides.author, self.asking.measure, smallest)
        return (*self.asides.proposed, *(() if self.asking.done else cases))


def nearly_all(refused: Counter[str]) -> str:
    """Say that too few cases were left of the drawn ones, and why the page refuses most others."""
    ((said, _),) = refused.most_common(1)
    return f"the page refuses {refused.total()} drawn calls, too many to go on; mostly: {said}"


def least(counted: int, fixed: int, strength: int) -> int:
    """Return how many cases must count when enough are drawn, where so many fixed ones do."""
    return max(counted, fixed + (DRAWN if strength > SINGLES else 0))


def drawn_cases(
    kind: Kind, fixed: Sequence[Case], counted: int, seed: int, enough: Callable[[], bool]
) -> Iterator[Case]:
    """Draw distinct cases with Hypothesis, in batches, until there are enough.

    That is asked before a batch, too: to draw takes longer than many a row.
    """
    from equivalence.cases.strategies import draw_many

    strategy = kind.drawn()
    seen = set(fixed)
    for batch in range(8):
        if enough():
            return
        for case in draw_many(strategy, 2 * counted, seed + batch):
            if case in seen:
                continue
            if enough():
                return
            seen.add(case)
            yield case


def dtypes_of(capabilities: Capabilities, row: Row) -> tuple[str, ...]:
    """Return the dtypes in which a backend offers the op or the optimizer of a row."""
    offered = capabilities.optimizers if row.direction == "update" else capabilities.ops
    return tuple(offered.get(row.op, ()))


def supported(capabilities: Capabilities, row: Row) -> bool:
    """Say whether a backend offers a row at all."""
    return row.dtype in dtypes_of(capabilities, row)


def run_row(backend: Any, row: Row, **options: Any) -> RowResult:
    """Run a row; what the backend does not support is said so."""
    capabilities = backend.capabilities()
    if not supported(capabilities, row):
        return RowResult(row, "unsupported", ring=capabilities.ring)
    return RowRunner(backend, row, **options).run()
