"""Cases as questions: how a case is put to a backend, and how its failure is described."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from equivalence.budgets.outcome import Outcome
from equivalence.cases.strata.classes import EXTENTS, size_class
from equivalence.measure.call import crash_text
from equivalence.runs.address import replay_line
from equivalence.runs.failure import Failure, Hints
from equivalence.runs.kinds import Case, Kind
from equivalence.runs.row.fault import ENDING, REPORT
from equivalence.runs.row.sentences import absorbed, sentences
from equivalence.workers.executor import Executor, Question
from equivalence.workers.notes import Ended
from equivalence.worlds.contract import Contract

INTERPRETER = "triton.runtime.interpreter"
"""The module that is loaded where Triton interprets kernels."""

SLOW = (
    "Triton interprets kernels here, about a millisecond for each program instance: with "
    "Capabilities(..., ring='interpreted') large calls are only as large as the launches ask for"
)
"""What to say of a call that took too long, where a backend does not say so."""


class Asking:
    """Puts cases to the backend of a row."""

    def __init__(
        self, backend: Any, contract: Contract, address: str | None, executor: Executor
    ) -> None:
        """Remember the watched backend, its contract, where it is loaded from, and who asks it."""
        self.backend, self.contract, self.address = backend, contract, address
        self.executor = executor

    def question(
        self,
        kind: Kind,
        case: Case,
        enter: Callable[[Outcome], None],
        contract: Contract | None = None,
        rung: str = "",
    ) -> Question[Outcome]:
        """Ask how a case is judged: by the row's contract, or by that of another rung."""
        text = case.to_json()
        return Question(
            f"{text} {rung}",
            f"{kind.describe(case)}; {replay_line(self.address, text)}",
            partial(kind.measure, self.backend, case, contract or self.contract),
            lambda answer: enter(outcome_of(answer)),
            Outcome,
            alike(case),
        )

    def measure(
        self, kind: Kind, case: Case, contract: Contract | None = None, rung: str = ""
    ) -> Outcome:
        """Put a case at once, and return how it is judged; a fault of the suite is an outcome."""
        question = self.question(kind, case, lambda outcome: None, contract, rung)
        try:
            answer = self.executor.ask(question)
        except ENDING:
            raise
        except Exception as error:
            return Outcome(crash=crash_text(error), end="fault")
        return outcome_of(answer)

    def describe(
        self, kind: Kind, case: Case, outcome: Outcome, hints: Hints | None = None
    ) -> Failure:
        """Put a failing case in words, with what was found of its cause."""
        described = describe_failure(kind, self.backend.name, case, outcome, self.address, hints)
        slow = outcome.end == "late" and INTERPRETER in sys.modules
        if slow and self.backend.capabilities().ring == "host":
            return replace(described, details=(*described.details, SLOW))
        return described


def alike(case: Case) -> str:
    """Return what a case has in common with others that may end a process as well.

    It is the most axes, and the size class of the longest one, that a tensor of the case has.
    """
    own: Any = getattr(case, "case", case)
    shapes = own.shapes
    extent = max((n for shape in shapes for n in shape), default=1)
    size = size_class(EXTENTS[0], extent)
    return f"rank {max(map(len, shapes), default=0)} and an extent of {size}"


def outcome_of(answer: Outcome | Ended) -> Outcome:
    """Return what became of a case; where a process ended at it, that is its outcome."""
    if isinstance(answer, Ended):
        return Outcome(crash=answer.how, end="late" if answer.late else "died")
    return answer


def ended(title: str, how: Ended, details: Sequence[str] = ()) -> Failure:
    """Return the failure of a question at which the process ended, or was ended."""
    kind = "late" if how.late else "died"
    what = f"the call {how.how}" if how.late else f"the process {how.how}"
    return Failure(title, (what, *details), kind=kind)


def _ends_by_itself(outcome: Outcome) -> bool:
    """Say whether a call hung, or left its process in its own words: no layout does that."""
    left = outcome.end == "died" and (outcome.crash or "").startswith("exited")
    return outcome.end == "late" or left


def describe_failure(
    kind: Kind,
    backend: str,
    case: Case,
    outcome: Outcome,
    address: str | None,
    hints: Hints | None = None,
) -> Failure:
    """Put a failing case in words; the address says where the backend can be loaded from."""
    details: list[str] = []
    what = "wrong" if outcome.crash is None else outcome.end or "crash"
    if outcome.crash is not None:
        said = {
            "crash": f"{backend} raised",
            "late": "the call",
            "died": "the process",
            "fault": "the suite raised",
        }
        details.append(f"{said[what]} {outcome.crash}")
        if what == "fault":
            details.append(REPORT)
    if outcome.problem is not None:
        details.append(outcome.problem)
    if outcome.detail is not None:
        details.append(outcome.detail.line())
        details.extend(f"{name} = {numbers}" for name, numbers in outcome.detail.inputs)
        details.extend(f"of the wrong elements: {said}" for said in outcome.detail.common)
        details.extend(filter(None, [absorbed(case, outcome.detail)]))
    found = hints or Hints()
    details.extend(found.lines())
    if not _ends_by_itself(outcome):
        details.extend(sentences(kind, case, found.cause, outcome.left_out))
    if found.cause == "":
        details.append("the same numbers fail in the plain layout and calling pattern, too")
    details.extend(
        f"{name}: {recipe.regime}, {recipe.layout}, seed {recipe.seed}"
        for name, recipe in kind.recipes(case)
    )
    replay = replay_line(address, case.to_json())
    return Failure(kind.describe(case), tuple(details), replay, what, element=outcome.detail)
