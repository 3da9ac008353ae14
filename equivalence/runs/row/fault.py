"""Faults of the suite itself: they are reported as such, and cost no case that was judged."""

from __future__ import annotations

from equivalence.cases.declared.inside import Misdeclared
from equivalence.measure.call import crash_text
from equivalence.runs.failure import Failure
from equivalence.workers.executor import LeftOut, TooManyEnded
from equivalence.worlds.contract import FormFailed

ENDING = (TooManyEnded, LeftOut, Misdeclared, FormFailed)
"""What ends a row, or a question of it, and is no fault of the suite."""

REPORT = (
    "this is a fault of the suite, not of the backend: please report it, with this text; the cases "
    "that were judged stand"
)


def fault(title: str, error: Exception) -> Failure:
    """Return the failure of a question at which the suite itself raised."""
    return Failure(title, (f"the suite raised {crash_text(error)}", REPORT), kind="fault")
