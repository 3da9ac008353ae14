"""Sessions of `fast` that are wrong between operations: judged by programs, then by stateful runs.

A member of a session is a context in which something of `fast` is changed; the changes are undone.
The written programs run first, since they are quick; the state machine drives its own after them.
"""

from __future__ import annotations

from population.record import Member

PROVIDER, PRECISION = "aten", "fp32"
"""Where sessions run: the quickest configuration, as what is changed is shared by all."""

RUNS = {"quick": 4, "ci": 20, "thorough": 100}
"""How many stateful runs judge a member, a part of what a profile asks of `fast`."""


def judged_session(member: Member, profile: str, seed: int) -> str:
    """Return what is wrong with sessions inside the member's context; empty where nothing is."""
    with member.how():
        return _programs() or _driven(profile, seed)


def _programs() -> str:
    """Run the written programs, and say what the first that fails says."""
    from equivalence.sessions.programs import PROGRAMS, started

    for program in PROGRAMS:
        try:
            with started(PROVIDER) as run:
                program(run)
        except Exception as error:
            return f"program {program.__name__}: {type(error).__name__}: {error}"
    return ""


def _driven(profile: str, seed: int) -> str:
    """Drive stateful runs until one breaks a promise."""
    from equivalence.sessions.stateful.machine import STEPS, run_machine

    try:
        return run_machine(PROVIDER, PRECISION, RUNS[profile], STEPS[profile], seed).says
    except Exception as error:
        return f"stateful run: {type(error).__name__}: {error}"
