"""One case, run again: by its line of JSON, in a process of its own and under a limit."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from equivalence.backends import UnknownBackend, check, load
from equivalence.backends.fence import Fenced
from equivalence.blame import Refused
from equivalence.budgets.outcome import Outcome
from equivalence.runs.address import address_of
from equivalence.runs.choice import kind_of_case, read_case
from equivalence.runs.kinds import Case, Kind
from equivalence.runs.report import show_fraction
from equivalence.runs.results import CONFORMANT, CRASH, NONCONFORMANT, Row
from equivalence.runs.row.asking import Asking, describe_failure
from equivalence.workers.executor import Executor
from equivalence.workers.pool import Died, spread
from equivalence.workers.watched import Watched

LIMIT = 60.0
"""How many seconds a call of the backend may take, if nobody says otherwise."""


class NoCase(Refused):
    """This is not the JSON of a case; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one case.

    kind      "" if every judged element is within its budget; otherwise "wrong" (so is a
              refusal), or "crash", "died" or "late", where there was nothing to judge
    fraction  the worst fraction of a budget, None where nothing was judged
    details   the lines of the failure, or of the worst element
    """

    row: Row
    backend: str
    title: str
    kind: str
    judged: int
    fraction: float | None
    details: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether the case failed."""
        return bool(self.kind)

    @property
    def code(self) -> int:
        """The exit code of the command."""
        if self.kind in ("", "wrong"):
            return NONCONFORMANT if self.kind else CONFORMANT
        return CRASH

    def lines(self) -> list[str]:
        """Return the result as text."""
        return [
            f"{self.title} on {self.backend}: {self.judged} elements judged",
            *(f"  {line}" for line in self.details),
            f"worst fraction of budget {show_fraction(self.fraction)}",
        ]


def replay_case(
    case: str, backend: Any, *, fence: bool = False, limit: float = LIMIT, jobs: int = 1
) -> Replayed:
    """Run one case, as a failure prints it, on a backend.

    case      one line of JSON
    backend   a name that `load` takes, or the backend itself, which runs in this process
    fence     whether memory that the backend allocates through torch is fenced
    limit     for how many seconds a call of the backend may run in a process of its own
    jobs      0 runs the case in this process, for a debugger, and without a limit

    NoCase refuses a text that is no case, and UnknownBackend a backend that cannot be loaded.
    """
    row, asked = _read(case)
    kind = kind_of_case(row, asked)
    named = isinstance(backend, str)
    found = load(backend) if named else check(type(backend).__name__, backend)
    if named and jobs > 0:
        outcome = _elsewhere(case, backend, fence, limit)
    else:
        outcome = _measured(found, row, asked, kind, fence)
    address = address_of(backend, found) if named else None
    return _replayed(row, asked, kind, found.name, outcome, address)


def _read(text: str) -> tuple[Row, Case]:
    """Read a case, or say what is wrong with the text."""
    try:
        return read_case(text)
    except Refused:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        missing = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise NoCase(f"this is not a case: {missing}") from error


def _elsewhere(text: str, backend: str, fence: bool, limit: float) -> Outcome:
    """Run a case in a worker process."""
    with closing(spread(_put, [(text, backend, fence)], 1, limit=limit)) as ended:
        found = next(outcome for _, outcome in ended)
    if isinstance(found, Died):
        return Outcome(crash=found.how, end="died")
    if found.refused:
        raise UnknownBackend(
            f"{found.refused}; this was a process of its own, and --jobs 0 has none"
        )
    outcome: Outcome = found.outcome
    return outcome


@dataclass(frozen=True, slots=True)
class _Put:
    """What a worker answers: what became of the case, or why it could not load the backend."""

    outcome: Outcome
    refused: str = ""


def _put(text: str, backend: str, fence: bool) -> _Put:
    """Run a case of a backend that is loaded by its name; this is what a worker does."""
    row, case = read_case(text)
    try:
        found = load(backend)
    except UnknownBackend as error:
        return _Put(Outcome(), str(error))
    return _Put(_measured(found, row, case, kind_of_case(row, case), fence))


def _measured(backend: Any, row: Row, case: Case, kind: Kind, fence: bool) -> Outcome:
    """Put a case to a backend."""
    watched = Watched(Fenced(backend) if fence else backend)
    contract = backend.capabilities().contract(row.op, row.dtype)
    return Asking(watched, contract, None, Executor()).measure(kind, case)


def _replayed(
    row: Row, case: Case, kind: Kind, backend: str, outcome: Outcome, address: str | None
) -> Replayed:
    """Put what became of a case in words."""
    failed = outcome.failed or outcome.crash is not None
    tell = partial(describe_failure, kind, backend, case, outcome, address)
    failure = tell() if failed else None
    worst = () if outcome.detail is None else (outcome.detail.line(),)
    if outcome.refused is not None:
        worst = (f"refused: {outcome.refused}",)
    return Replayed(
        row,
        backend,
        kind.describe(case),
        failure.kind if failure is not None else "" if outcome.refused is None else "wrong",
        outcome.judged,
        outcome.fraction,
        worst if failure is None else failure.details,
    )
