"""What a row has learned: counts, findings that were met, failures, and the status they come to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from equivalence.budgets.findings import Finding
from equivalence.budgets.outcome import Outcome, larger
from equivalence.cases.call import counts
from equivalence.runs.failure import Failure
from equivalence.runs.kinds import Case, shows
from equivalence.runs.results import Note, status_of

SLOTS = (
    *("edges", "refusals", "findings", "extras", "values", "sizes"),
    *("refused", "declaration", "processes", "faults"),
)
"""Where failures go. Each kind of question has its own slot, and none takes up another's room."""

MOST_FAILURES = 3
"""How many failures a slot shows. After as many wrong results, no more cases of it are asked."""

SAMPLE = 4
"""How many cases decide which rung of the ladder a backend's results satisfy."""


@dataclass
class Tally:
    """What a row has learned so far.

    counted        how many cases counted
    judged         how many elements had a budget
    unconstrained  how many elements had none
    at_ends        how many of these belong to cases at the ends of a format, where much has none
    wide           how many elements had a budget too wide to say anything
    worst, page    the largest fraction of a budget, and of what the page's own steps allow
    over           whether a case was over budget, declared or not
    shares         how many cases had elements
    open, broad    which parts of these cases were unconstrained, and too wide, added up
    declared       the findings that were met
    sample         cases that decide which rung of the ladder the results satisfy
    left_out       what was not run, because the backend does not offer it
    notes          what a reader has to know, and is no failure
    proposed       findings that would declare what failed
    failures       what was wrong, by slot
    """

    counted: int = 0
    judged: int = 0
    unconstrained: int = 0
    worst: float | None = None
    page: float | None = None
    wide: int = 0
    at_ends: int = 0
    shares: int = 0
    open: float = 0.0
    broad: float = 0.0
    over: bool = False
    declared: list[Finding] = field(default_factory=list)
    sample: list[Case] = field(default_factory=list)
    left_out: dict[str, None] = field(default_factory=dict[str, None])
    notes: list[Note] = field(default_factory=list[Note])
    proposed: list[str] = field(default_factory=list[str])
    failures: dict[str, list[Failure]] = field(default_factory=lambda: {slot: [] for slot in SLOTS})

    def add(self, case: Case, outcome: Outcome, ends: bool = False) -> None:
        """Enter a case that counts; ends says that its numbers lie at the ends of their format."""
        elements = outcome.judged + outcome.unconstrained
        if elements:
            self.shares += 1
            self.open += 0.0 if ends else outcome.unconstrained / elements
            self.broad += outcome.wide / elements
        self.at_ends += outcome.unconstrained if ends else 0
        self.judged += outcome.judged
        self.unconstrained += outcome.unconstrained
        self.wide += outcome.wide
        if counts(outcome.judged) and shows(case, outcome.differing):
            self.counted += 1
            if len(self.sample) < SAMPLE:
                self.sample.append(case)
        self.see(outcome)

    def see(self, outcome: Outcome) -> None:
        """Enter a case that does not count: only its fractions."""
        self.over = self.over or outcome.failed
        self.worst = larger(self.worst, outcome.fraction)
        self.page = larger(self.page, outcome.page)

    def declare(self, finding: Finding) -> None:
        """Enter a finding that was met."""
        if finding not in self.declared:
            self.declared.append(finding)

    def fail(self, slot: str, failure: Failure) -> None:
        """Enter a failure."""
        self.failures[slot].append(replace(failure, source=slot))

    def wrong(self, slot: str) -> int:
        """Count the wrong results of a slot."""
        return sum(not failure.crash for failure in self.failures[slot])

    def crashes(self, slot: str) -> int:
        """Count the questions of a slot that gave no result."""
        return sum(failure.crash for failure in self.failures[slot])

    @property
    def failed(self) -> bool:
        """Whether anything was wrong, crashes apart."""
        return any(self.wrong(slot) for slot in SLOTS)

    @property
    def crashed(self) -> bool:
        """Whether anything crashed."""
        return any(self.crashes(slot) for slot in SLOTS)

    def status(self, wanted: int, partial: bool = False) -> str:
        """Return the status of a row of which so many cases must count, crashes apart.

        Of a row of a part of an op, any judged element is enough.

        A row says too little where too much of it has no budget, or too wide a one. One long case
        can make it so by elements, and a few small ones by cases: it is ambiguous if it is by both.
        """
        if partial:
            wanted = 0 if self.judged else 1
        by_elements: dict[str, float] = {
            "judged": self.judged,
            "unconstrained": self.unconstrained - self.at_ends,
            "wide": self.wide,
        }
        by_cases: dict[str, float] = {
            "judged": self.shares - self.open,
            "unconstrained": self.open,
            "wide": self.broad,
        }
        first, second = (
            status_of(
                failed=self.failed,
                crashed=False,
                counted=self.counted,
                wanted=wanted,
                declared=bool(self.declared),
                partial=partial,
                **shares,
            )
            for shares in (by_elements, by_cases)
        )
        return second if first == "ambiguous" else first

    def shown(self) -> tuple[Failure, ...]:
        """Return the first wrong results and crashes of each slot, the worst of the row first.

        Beside each slot's it is said how many more there are. What came twice is shown once: the
        same case may be drawn in one slot, and be what another one's case was made smaller to.
        """
        found: list[tuple[tuple[int, float], Failure]] = []
        known: set[tuple[str, str | None, str]] = set()
        for slot, failures in self.failures.items():
            fresh = list({f.same: f for f in failures if f.same not in known}.values())
            known |= {failure.same for failure in fresh}
            for crash in (False, True):
                of_a_kind = [failure for failure in fresh if failure.crash == crash]
                few, more = of_a_kind[:MOST_FAILURES], of_a_kind[MOST_FAILURES:]
                found += [(failure.severity, failure) for failure in few]
                if more:
                    said = f"{len(more)} more {'crashes' if crash else 'failures'}: {slot}"
                    after = max(failure.severity for failure in few)
                    found.append((after, Failure(said, kind=more[0].kind, source=slot)))
        return tuple(failure for _, failure in sorted(found, key=lambda pair: pair[0]))
