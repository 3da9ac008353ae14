"""Faults of the suite itself: they are reported as such, and cost no case that was judged."""

from __future__ import annotations

from collections.abc import Callable

from equivalence.budgets.outcome import Outcome
from equivalence.measure.call import crash_text
from equivalence.runs.failure import Failure
from equivalence.worlds.contract import FormFailed

REPORT = (
    "this is a fault of the suite, not of the backend: please report it, with this text; the cases "
    "that were judged stand"
)


def faultless(measure: Callable[[], Outcome]) -> Outcome:
    """Measure a case; an exception that no backend raised is an outcome of its own kind.

    FormFailed is passed on: a form belongs to the contract of the backend.
    """
    try:
        return measure()
    except FormFailed:
        raise
    except Exception as error:
        return Outcome(crash=crash_text(error), end="fault")


def fault(title: str, error: Exception) -> Failure:
    """Return the failure of a question at which the suite itself raised."""
    return Failure(title, (f"the suite raised {crash_text(error)}", REPORT), kind="fault")
