"""Runs the catchers it is given, and prints what each found as one line of JSON.

    python -m tests.mutants.catch "softmax vjp fp32" "program reused on aten"

A catcher is a row, judged on its fixed strata (nothing is drawn or shrunk), a program on one
provider, the state machine on one provider at one precision, which drives the runs of a fixed
seed, or a row of the exact ring, such as "exact softmax vjp". The kernels run interpreted. The exit
codes are those of the suite: 0 conformant, 1 not, 3 a crash.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from equivalence.backends import load
from equivalence.budgets.outcome import Outcome
from equivalence.runs.choice import kind_of
from equivalence.runs.failure import plain_fraction
from equivalence.runs.results import CONFORMANT, CRASH, NONCONFORMANT, Row

BACKEND = "fast-triton-interpreted"

RUNS, STEPS = 80, 30
"""How many runs the state machine drives, and how long they are."""

ENOUGH = 3
"""How many failing cases of a row are enough to stop."""

Found = dict[str, Any]
"""What a catcher found: its name and status, the worst fraction of a budget, what it says, and a
digest by which to tell whether two runs had the same results."""


def main(catchers: Sequence[str]) -> int:
    """Run the catchers, print a line of JSON, and return the exit code."""
    import fast

    found = [catch(name) for name in catchers]
    print(json.dumps({"fast": fast.__file__, "found": found}))
    statuses = [one["status"] for one in found]
    if "error" in statuses:
        return CRASH
    return NONCONFORMANT if "nonconformant" in statuses else CONFORMANT


def catch(name: str) -> Found:
    """Run one catcher."""
    kind, *rest = name.split()
    if kind == "machine":
        return {"catcher": name, **driven(*rest)}
    if kind == "program":
        program, _, provider = rest
        return {"catcher": name, **written(program, provider)}
    if kind == "exact":
        return {"catcher": name, **exactly(*rest)}
    return {"catcher": name, **row(Row(kind, *rest))}


class Watched:
    """A backend, and a digest of the results that it has given."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.digest = sha256()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def value(self, *call: Any) -> Any:
        """Compute an operation."""
        return self._seen([self._backend.value(*call)])[0]

    def vjp(self, *call: Any) -> Any:
        """Compute the gradients of one."""
        return self._seen(self._backend.vjp(*call))

    def _seen(self, results: Any) -> Any:
        for result in results:
            self.digest.update(repr(None if result is None else result.tolist()).encode())
        return results


def row(which: Row) -> Found:
    """Judge the fixed strata of a row, until enough of them fail."""
    backend, kind = Watched(load(BACKEND)), kind_of(which)
    contract = backend.capabilities().contract(which.op, which.dtype)
    fractions, failures, crashed = list[float](), list[str](), False
    for case in kind.fixed():
        outcome = kind.measure(backend, case, contract)
        fractions.append(outcome.fraction or 0.0)
        crashed = crashed or outcome.crash is not None
        if outcome.failed:
            failures.append(f"{kind.describe(case)}: {_words(outcome)}")
        if len(failures) == ENOUGH:
            break
    backend.digest.update(repr(fractions).encode())
    return _found(crashed, max(fractions), failures) | {"digest": backend.digest.hexdigest()}


def exactly(of: str, direction: str) -> Found:
    """Compare a row of the exact ring, until a point differs."""
    from equivalence.cases.declared.inside import all_of
    from equivalence.exact.rows import Row as ExactRow
    from equivalence.exact.rows import asked
    from equivalence.exact.updates import DTYPE, EXTRAS

    inside = all_of(of, DTYPE) if direction == EXTRAS else None
    judged, cases = asked(ExactRow(of, direction), inside=inside)
    for case in cases:
        verdict = judged(case, 0)
        if says := verdict.differences or verdict.unread:
            return _found(False, None, [*says])
    return _found(False, None, [])


def written(program: str, provider: str) -> Found:
    """Make the run of one program."""
    from equivalence.budgets.violation import Violation
    from equivalence.sessions.programs import PROGRAMS, started

    (make,) = [p for p in PROGRAMS if p.__name__ == program]
    try:
        with started(provider) as run:
            make(run)
    except Violation as broken:
        return _found(False, None, [broken.says])
    return _found(False, run.ledger.worst, [])


def driven(provider: str, precision: str) -> Found:
    """Drive many runs of a session, until one breaks a promise."""
    from equivalence.sessions.stateful.machine import run_machine

    says = run_machine(provider, precision, RUNS, STEPS, 0).says
    return _found(False, None, [says] if says else [])


def _words(outcome: Outcome) -> str:
    detail = outcome.detail and outcome.detail.line()
    return outcome.crash or outcome.problem or str(detail)


def _found(crashed: bool, worst: float | None, failures: list[str]) -> Found:
    status = "error" if crashed else "nonconformant" if failures else "conformant"
    return {"status": status, "worst": plain_fraction(worst), "says": failures}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
