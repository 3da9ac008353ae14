"""What a row has seen so far: counts, findings that were met, and failures, each in a slot."""

from __future__ import annotations

from dataclasses import dataclass, field

from equivalence.budgets.findings import Finding
from equivalence.budgets.outcome import Outcome, larger
from equivalence.cases.call import counts
from equivalence.runs.kinds import Case, shows
from equivalence.runs.results import Failure

SLOTS = ("edges", "refusals", "findings", "extras", "values", "sizes", "processes")
"""Where failures go: each kind of question has room of its own, and none uses up another's."""

MOST_FAILURES = 3
"""How many failures a slot shows; no more values are drawn after as many wrong ones."""

SAMPLE = 4
"""How many cases decide which rung of the ladder a backend's results satisfy."""


@dataclass
class Tally:
    """What a row has seen so far; over says that a case was over budget, declared or not.

    at_ends counts unconstrained elements where much is open by nature. shares, open and broad weigh
    every case alike, however many elements it has: how many cases were seen, which share of them
    was unconstrained, and which had budgets too wide to say anything.
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
    failures: dict[str, list[Failure]] = field(default_factory=lambda: {slot: [] for slot in SLOTS})

    def add(self, case: Case, outcome: Outcome, ends: bool = False) -> None:
        """Enter one measured case; at the ends of a format much is open by nature."""
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
        """Keep the worst fractions."""
        self.over = self.over or outcome.failed
        self.worst = larger(self.worst, outcome.fraction)
        self.page = larger(self.page, outcome.page)

    def declare(self, finding: Finding) -> None:
        """Enter a finding that was met."""
        if finding not in self.declared:
            self.declared.append(finding)

    def fail(self, slot: str, failure: Failure) -> None:
        """Enter a failure."""
        self.failures[slot].append(failure)

    def wrong(self, slot: str) -> int:
        """Count the wrong results of a slot."""
        return sum(not failure.crash for failure in self.failures[slot])

    def crashes(self, slot: str) -> int:
        """Count what came without a result in a slot."""
        return sum(failure.crash for failure in self.failures[slot])

    @property
    def failed(self) -> bool:
        """Whether anything was wrong, crashes apart."""
        return any(self.wrong(slot) for slot in SLOTS)

    @property
    def crashed(self) -> bool:
        """Whether anything crashed."""
        return any(self.crashes(slot) for slot in SLOTS)

    def shown(self) -> tuple[Failure, ...]:
        """Return the first failures of each slot, wrong ones and crashes, and how many more."""
        found: list[Failure] = []
        for slot, failures in self.failures.items():
            for crash in (False, True):
                of_a_kind = [failure for failure in failures if failure.crash == crash]
                found += of_a_kind[:MOST_FAILURES]
                more = of_a_kind[MOST_FAILURES:]
                if more:
                    what = "crashes" if crash else "failures"
                    found.append(Failure(f"{len(more)} more {what}: {slot}", kind=more[0].kind))
        return tuple(found)
