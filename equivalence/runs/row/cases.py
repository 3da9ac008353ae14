"""The cases of a row: asked in batches, entered in its tally, and made smaller where they fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from equivalence.budgets.outcome import Outcome
from equivalence.cases.fills.regimes import EVERY, NONFINITE, VANISHING
from equivalence.cases.fills.turns import SPECIAL
from equivalence.runs.failure import Hints
from equivalence.runs.kinds import Case, Kind
from equivalence.runs.results import Note
from equivalence.runs.row.asking import Asking
from equivalence.runs.row.declarations import Declarations
from equivalence.runs.row.proposals import Proposals
from equivalence.runs.row.reached import Reached
from equivalence.runs.row.tally import MOST_FAILURES, Tally
from equivalence.workers.executor import Batch

LONGEST_SHRINK = 60.0
"""For how many seconds a failing case is made smaller, however slow its calls are."""


@dataclass
class Cases:
    """The cases of one kind.

    reached    where cases are entered as answered or refused
    counted    how many cases of the row must count; as many crashes of a slot are enough
    shrinking  whether failing cases are made smaller
    proposals  where undeclared failures are collected; None where failures are simply shown
    endless    whether cases go on past failures
    probing    whether other calls than the first failing one are made, to explain it
    """

    kind: Kind
    asking: Asking
    tally: Tally
    known: Declarations
    reached: Reached
    counted: int
    shrinking: bool = False
    endless: bool = False
    proposals: Proposals | None = None
    probing: bool = False
    shrunk: set[tuple[str, bool]] = field(default_factory=set[tuple[str, bool]])
    probed: set[str] = field(default_factory=set[str])

    def batch(
        self,
        slot: str,
        cases: Iterable[Case],
        counting: bool = True,
        enough: Callable[[], bool] | None = None,
    ) -> Batch:
        """Return a question for each case; failures go to the slot, and cases count or do not."""
        questions = (
            self.asking.question(self.kind, case, partial(self._enter, slot, counting, case))
            for case in cases
        )
        return Batch(questions, partial(self.enough, slot) if enough is None else enough)

    def enough(self, slot: str) -> bool:
        """Say whether a slot has as many failures as anybody wants to read."""
        if self.endless:
            return False
        most = max(self.counted, MOST_FAILURES)
        return self.tally.wrong(slot) >= MOST_FAILURES or self.tally.crashes(slot) >= most

    def _enter(self, slot: str, counting: bool, case: Case, outcome: Outcome) -> None:
        """Enter what became of a case."""
        if not self.reached.enter(slot, self.kind, case, outcome):
            return
        self.tally.left_out.update(dict.fromkeys(outcome.left_out))
        if outcome.failed:
            self._fail(slot, case, outcome)
        if counting:
            self.tally.add(case, outcome, self._lies_at_an_end(case))
        else:
            self.tally.see(outcome)

    def _lies_at_an_end(self, case: Case) -> bool:
        """Say whether a tensor of a case holds numbers at the ends of its format, or beyond."""
        ends = (*NONFINITE, *SPECIAL, *VANISHING, EVERY)
        return any(recipe.regime in ends for _, recipe in self.kind.recipes(case))

    def _fail(self, slot: str, case: Case, outcome: Outcome) -> None:
        """Enter a failing case: it is declared, or a failure, the first of them made smaller."""
        left = self.known.undeclared(self.kind, case, outcome)
        if left == []:
            for finding in self.known.met(self.kind, case, outcome):
                self.tally.declare(finding)
            return
        if self.proposals is not None and left is not None:
            self.proposals.add(case, left)
        start, first = case, outcome
        crash = outcome.crash is not None
        if self.shrinking and (slot, crash) not in self.shrunk and not outcome.end:
            self.shrunk.add((slot, crash))
            case, outcome = self._smallest(slot, case, outcome)
        hints = self._hints(slot, start, first, case, outcome)
        self.tally.fail(slot, self.asking.describe(self.kind, case, outcome, hints))

    def _hints(self, slot: str, start: Case, first: Outcome, case: Case, outcome: Outcome) -> Hints:
        """Return what a reader may want to know of the cause, if the failure will be shown."""
        from equivalence.runs.row.probes import Probes

        crash = outcome.crash is not None
        shown = self.tally.crashes(slot) if crash else self.tally.wrong(slot)
        if self.endless or outcome.end or shown >= MOST_FAILURES:
            return Hints()
        shared = first.detail.common if first.detail is not None and start != case else ()
        probes = Probes(self.asking)
        cause = probes.cause(self.kind, case)
        probed: tuple[str, ...] = ()
        if self.probing and slot not in self.probed and not crash:
            self.probed.add(slot)
            probed = tuple(probes.found(self.kind, case, outcome, start))
            if said := probes.family(self.kind, case, outcome):
                self.tally.notes.append(Note(said))
        return Hints(cause, self.kind.describe(start), shared, probed)

    def _smallest(self, slot: str, case: Case, outcome: Outcome) -> tuple[Case, Outcome]:
        """Return the smallest case below a failing one that fails in the same way, undeclared.

        Where the process ends at a smaller case, that is a failure of its own.
        """
        seen = {case: outcome}
        crash, start = outcome.crash is not None, time.monotonic()

        def fails(candidate: Case) -> bool:
            if candidate not in seen:
                late = time.monotonic() - start > LONGEST_SHRINK
                if self.asking.executor.exhausted or late:
                    return False
                seen[candidate] = self.asking.measure(self.kind, candidate)
                if seen[candidate].end:
                    failure = self.asking.describe(self.kind, candidate, seen[candidate])
                    self.tally.fail(slot, failure)
            found = seen[candidate]
            likewise = found.failed and not found.end and (found.crash is not None) == crash
            return likewise and self.known.undeclared(self.kind, candidate, found) != []

        from equivalence.cases.shrink import smallest

        found = smallest(case, fails, self.kind.smaller)
        return found, seen[found]
