"""The cases of a row: asked in batches, entered in its tally, and made smaller where they fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from equivalence.budgets.outcome import Outcome
from equivalence.cases.built import allows
from equivalence.cases.call import CaseSpec
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

AFTER_A_CALL = (
    "called alone in a new process, the same numbers pass: what does an earlier call leave behind?"
)
"""What to say of a case that fails in its calling pattern, and not alone."""

AFTER_OTHERS = (
    "fails only after earlier calls of this process, and passes in a new one, also where it is "
    "replayed: what do earlier calls leave behind?"
)
"""What to say of a case that a new process does not show."""


@dataclass
class Cases:
    """The cases of one kind.

    reached    where cases are entered as answered or refused
    counted    how many cases of the row must count; as many crashes of a slot are enough
    shrinking  whether failing cases are made smaller
    proposals  where undeclared failures are collected; None where failures are simply shown
    endless    whether cases go on past failures
    probing    whether other calls than the first failing one are made, to explain it
    stateful   whether the first failure needs earlier calls; None before there is one
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
    stateful: bool | None = None

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
        history = ""
        if self.probing and not outcome.end and not self._enough_shown(slot, crash):
            case, outcome, history = self._afresh((start, first), case, outcome)
        hints = self._hints(slot, start, first, case, outcome, history)
        self.tally.fail(slot, self.asking.describe(self.kind, case, outcome, hints))

    def _enough_shown(self, slot: str, crash: bool) -> bool:
        """Say whether a slot has as many failures of a sort as are shown."""
        shown = self.tally.crashes(slot) if crash else self.tally.wrong(slot)
        return self.endless or shown >= MOST_FAILURES

    def _afresh(
        self, start: tuple[Case, Outcome], case: Case, outcome: Outcome
    ) -> tuple[Case, Outcome, str]:
        """Return a case that fails in a new process as well, and what earlier calls have to do.

        start is the case of which this one was made, with its outcome. Where a failing case passes
        in a new process, so may any that this process has made smaller. Then the same call comes
        twice, or in the calling pattern of the first case, or it is the first case itself.
        """
        from equivalence.runs.row.probes import Probes

        probes = Probes(self.asking)
        # Where the first failure needs no earlier calls, the others are not asked: each costs
        # seconds.
        if self.stateful is False or not probes.passes_afresh(self.kind, case):
            self.stateful = bool(self.stateful)
            return case, outcome, ""
        self.stateful = True
        for other in _with_history(case, start[0]):
            found = start[1] if other == start[0] else self.asking.measure(self.kind, other)
            likewise = (found.crash is None) == (outcome.crash is None)
            if found.failed and likewise and probes.passes_afresh(self.kind, other) is False:
                return (
                    other,
                    found,
                    AFTER_A_CALL if getattr(other, "calling", "alone") != "alone" else "",
                )
        return case, outcome, AFTER_OTHERS

    def _hints(
        self, slot: str, start: Case, first: Outcome, case: Case, outcome: Outcome, history: str
    ) -> Hints:
        """Return what a reader may want to know of the cause, if the failure will be shown."""
        from equivalence.runs.row.probes import Probes

        crash = outcome.crash is not None
        if outcome.end or self._enough_shown(slot, crash):
            return Hints()
        shared = first.detail.common if first.detail is not None and start != case else ()
        probes = Probes(self.asking)
        # What is left by earlier calls is left in the plain ways, too: they show nothing.
        cause = None if history else probes.cause(self.kind, case)
        if cause == "" and self.probing and probes.passes_plainly_afresh(self.kind, case):
            cause = None
        probed: tuple[str, ...] = ()
        if self.probing and slot not in self.probed and not crash and not history:
            self.probed.add(slot)
            probed = tuple(probes.found(self.kind, case, outcome, start))
            if said := probes.family(self.kind, case, outcome):
                self.tally.notes.append(Note(said))
        return Hints(cause, self.kind.describe(start), shared, probed, history)

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


def _with_history(case: Case, start: Case) -> Iterator[Case]:
    """Yield a call that comes twice, then in the calling pattern of another one, then that one."""
    if isinstance(case, CaseSpec):
        patterns = dict.fromkeys(("again", start.calling))
        fitting = (replace(case, calling=name) for name in patterns if allows(case, name))
        yield from (other for other in fitting if other != case)
    if start != case:
        yield start
