"""Questions put to a backend: written down, answered, or a process that ended at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from equivalence.budgets.outcome import Outcome
from equivalence.runs.address import replay_line
from equivalence.runs.kinds import Case, Kind
from equivalence.runs.results import Failure
from equivalence.runs.row.watched import Watched
from equivalence.workers import notes
from equivalence.worlds.contract import Contract

MOST_ENDED = 3
"""How many questions of a row may each cost a process; after as many, nothing more is asked."""

Answer = TypeVar("Answer")


class TooManyEnded(Exception):
    """So many processes have ended at the questions of a row that nothing more is asked."""


class Asking:
    """What a row asks of its backend."""

    def __init__(self, backend: Any, kind: Kind, contract: Contract, address: str | None) -> None:
        """Remember whom to ask, how cases are judged, and where the backend is loaded from."""
        self.backend = Watched(backend)
        self.kind, self.contract, self.address = kind, contract, address
        self.ended: set[str] = set()

    @property
    def done(self) -> bool:
        """Whether too many processes have ended."""
        return len(self.ended) >= MOST_ENDED

    @contextmanager
    def judging(self, kind: Kind) -> Iterator[None]:
        """Judge cases of another kind while the block runs."""
        before, self.kind = self.kind, kind
        try:
            yield
        finally:
            self.kind = before

    def ask(self, question: str, what: str, put: Callable[[], Answer]) -> Answer | notes.Ended:
        """Return the answer to a question, or how the process ended at it.

        TooManyEnded says that it was not put.
        """
        if self.done and question not in self.ended:
            raise TooManyEnded(f"nothing more was asked, as {MOST_ENDED} processes have ended")
        answer = notes.asked(question, what, put)
        if isinstance(answer, notes.Ended):
            self.ended.add(question)
        return answer

    def measure(self, case: Case, contract: Contract | None = None, rung: str = "") -> Outcome:
        """Run a case and judge it, by the contract of another rung where one is given."""
        found = self.ask(
            f"{case.to_json()} {rung}",
            f"{self.kind.describe(case)}; {replay_line(self.address, case.to_json())}",
            partial(self.kind.measure, self.backend, case, contract or self.contract),
        )
        if isinstance(found, notes.Ended):
            return Outcome(crash=found.how, end="late" if found.late else "died")
        return found

    def describe(self, case: Case, outcome: Outcome) -> Failure:
        """Put a failing case in words."""
        return describe_failure(self.kind, self.backend.name, case, outcome, self.address)


def describe_failure(
    kind: Kind, backend: str, case: Case, outcome: Outcome, address: str | None
) -> Failure:
    """Put a failing case in words; the address is where the backend can be loaded from."""
    details: list[str] = []
    what = "wrong" if outcome.crash is None else outcome.end or "crash"
    if outcome.crash is not None:
        said = {"crash": f"{backend} raised", "late": "the call", "died": "the process"}
        details.append(f"{said[what]} {outcome.crash}")
    if outcome.problem is not None:
        details.append(outcome.problem)
    if outcome.detail is not None:
        details.append(outcome.detail.line())
    details.extend(
        f"{name}: {recipe.regime}, {recipe.layout}, seed {recipe.seed}"
        for name, recipe in kind.recipes(case)
    )
    replay = replay_line(address, case.to_json())
    return Failure(kind.describe(case), tuple(details), replay, what)
