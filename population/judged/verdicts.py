"""What this suite says of a member: its rows at a profile, to the first failure and not shrunk.

A wrong member is caught when some row of it is nonconformant at every seed asked for, or partial
where only `--whole` can see it; a right one is refused when any row is anything but conformant, or
partial, at any seed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from equivalence.budgets.outcome import Outcome
from equivalence.measure.plainly import no_ways
from equivalence.runs.choice import kind_of
from equivalence.runs.kinds import Case, Kind
from equivalence.runs.results import Row, RowResult
from equivalence.runs.rows import inside_of
from equivalence.runs.runner import PROFILES, STRENGTHS, run_row
from equivalence.worlds.contract import Contract
from population.judged.member import MemberBackend, address
from population.record import SESSION, Member

ACCEPTED = ("conformant", "partial")
REFUSED = ("nonconformant", "error")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge said: whether it accepts the member, and by which words and in which time.

    accepted is None where the judge was not asked or does not apply. replay is the line that runs
    the case again which decided; a file does not keep it.
    """

    accepted: bool | None
    says: str = ""
    seconds: float = 0.0
    replay: str = field(default="", compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON carries it: the time in hundredths of a second, and nothing empty."""
        found = {**asdict(self), "seconds": round(self.seconds, 2), "replay": ""}
        return {key: v for key, v in found.items() if v or key == "accepted"}


class Impatient:
    """A kind of cases that shrinks nothing, and that runs nothing after a failure."""

    def __init__(self, kind: Kind) -> None:
        """Stand in for a kind."""
        self.kind = kind
        self.failed: Outcome | None = None
        self.fixed, self.extras, self.drawn = kind.fixed, kind.extras, kind.drawn
        self.describe, self.recipes, self.refused = kind.describe, kind.recipes, kind.refused
        self.whole, self.levels = kind.whole, kind.levels
        self.ways, self.measure_plainly = no_ways, kind.measure_plainly

    def smaller(self, case: Case) -> Iterator[Case]:
        """Yield nothing: a member is caught by any case."""
        del case
        return iter(())

    def measure(self, backend: Any, case: Case, contract: Contract) -> Outcome:
        """Run a case; after a failing one, that failure stands for all."""
        if self.failed is not None:
            return self.failed
        outcome = self.kind.measure(backend, case, contract)
        if outcome.failed:
            self.failed = outcome
        return outcome


def rows(member: Member) -> list[Row]:
    """Return the rows that a member takes over."""
    return [Row(member.of, way, dtype) for way in member.directions for dtype in member.dtypes]


def judged(member: Member, profile: str, seeds: int = 1) -> Verdict:
    """Judge a member at a profile, by the cases of so many seeds; one seed of error decides."""
    start = time.perf_counter()
    for seed in range(seeds):
        found = _judged_once(member, profile, seed)
        if found.accepted is not member.right:
            break
    return replace(found, seconds=time.perf_counter() - start)


def _judged_once(member: Member, profile: str, seed: int) -> Verdict:
    if member.of == SESSION:
        from population.judged.sessions import judged_session

        says = judged_session(member, profile, seed)
        return Verdict(not says, says)
    for row in rows(member):
        backend = MemberBackend(member)
        inside = inside_of(backend.capabilities(), row)
        result = run_row(
            backend,
            row,
            counted=PROFILES[profile],
            strength=STRENGTHS[profile],
            seed=seed,
            findings=(),
            kind=Impatient(kind_of(row, inside)),
            address=address(member),
        )
        hidden = member.whole and result.status == "partial"
        accepted = result.status in ACCEPTED and not hidden
        if result.status in REFUSED or (not accepted and (member.right or hidden)):
            return _refused(result)
    return Verdict(True)


def _refused(result: RowResult) -> Verdict:
    """Say by which case a row was refused, or by which status where no case was."""
    if not result.failures:
        return Verdict(False, f"{result.row}: {result.status}")
    first = result.failures[0]
    says = f"{result.row}: {'; '.join(first.lines()[:2])}"
    return Verdict(False, says, replay=first.replay or "")
