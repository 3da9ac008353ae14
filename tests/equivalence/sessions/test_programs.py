"""Programs as fixed runs: planted bugs are found, and a broken one replays without Hypothesis."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from equivalence.backends.fast.contract import family_of
from equivalence.backends.fast.programs import of_program, of_update
from equivalence.budgets.judge import fraction_of
from equivalence.budgets.violation import Violation
from equivalence.sessions import programs
from equivalence.sessions.pair import SessionPair
from equivalence.sessions.programs import Program, started
from equivalence.sessions.seen import replay
from equivalence.sessions.stateful.stepwise import StepwisePair
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import exact, stored
from equivalence.worlds.contract import Contract
from fast.ref import Ref
from fast.runtime.param import Param
from fast.tape import Tape
from spec.session import Session as SpecSession
from tools.tree import ROOT

WITHOUT_HYPOTHESIS = """\
import sys
sys.modules["hypothesis"] = None
"""


def broken(program: Program) -> Violation:
    """Make a program's run, and return the promise that it breaks."""
    with pytest.raises(Violation) as found, started("aten") as run:
        program(run)
    return found.value


Change = Callable[[pytest.MonkeyPatch], None]


def product_by_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ref, "__mul__", Ref.__add__)


def staleness_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tape, "check_versions", lambda self, last: None)


def value_written_late(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Param.set

    def late(self: Any, value: Any) -> None:
        write(self, value * 1.001)

    monkeypatch.setattr(Param, "set", late)


PLANTED: list[tuple[Change, Program, str]] = [
    (product_by_operator, programs.reused, "value of entry 2: element 0"),
    (staleness_forgotten, programs.outdated, "entry 0: stale: False, due is True"),
    (value_written_late, programs.lived, "parameter 0: host copy"),
]
"""Bugs, a program that meets each of them, and what it says."""


@pytest.mark.parametrize(
    ("plant", "program", "says"), PLANTED, ids=[p.__name__ for p, *_ in PLANTED]
)
def test_a_planted_bug_is_found(
    plant: Change, program: Program, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert broken(program).says.startswith(says)


def test_a_broken_program_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    value_written_late(monkeypatch)
    found = broken(programs.lived)
    with pytest.raises(Violation) as again:
        exec(replay(found), {})
    assert again.value.says == found.says


FIXED = {
    "a run": "from equivalence.sessions.stateful.run import Run\n"
    "run = Run('aten', 'fp32', 'normal')\nrun.use(run.param((2,), 1))\nrun.close()\n",
    "a program": "from equivalence.sessions.programs import perceptron, started\n"
    "with started('aten') as run:\n    perceptron(run)\n",
    "a training": "from equivalence.sessions.trainings import Text, Training, train\n"
    "step = {'seed': 1, 'rows': 3, 'form': {}, 'before': None, 'max_norm': None}\n"
    "text = Text(('relu',), 'mse_loss', 'mean')\n"
    "training = Training(text, (True,) * 5, 'sgd', {'lr': 0.5}, [step])\n"
    "assert train(training, ('eager', 'graph'), 'aten', 'fp32').judged\n",
}


@pytest.mark.parametrize("text", FIXED.values(), ids=FIXED)
def test_a_fixed_run_needs_no_hypothesis(text: str) -> None:
    command = [sys.executable, "-c", WITHOUT_HYPOTHESIS + text]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_hypothesis_is_asked_for_cases_alone() -> None:
    room = ROOT / "equivalence" / "sessions"
    asks = {
        str(path.relative_to(room))
        for path in room.rglob("*.py")
        if any(line.startswith(("import hypothesis", "from hypothesis")) for line in
               path.read_text(encoding="utf-8").splitlines())
    }  # fmt: skip
    assert asks == {"drawn.py", "calls/machine.py", "stateful/machine.py"}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_a_program_has_one_contract_whoever_judges_it(provider: str, precision: str) -> None:
    due = of_program(family_of(provider), precision)
    pair = SessionPair(SpecSession(), provider, precision)
    found = [pair.arithmetic, StepwisePair(provider, precision).arithmetic]
    assert [arithmetic.contract for arithmetic in found] == [due] * 2
    assert pair.updates("adam").contract == of_update(family_of(provider), "adam", precision)


def difference(contract: Contract) -> float:
    """Judge p - q where torch rounded p up to the nearest and an interpreted kernel truncated q."""
    a, b, c, d = exact(Arithmetic(contract), 133 / 128, 141 / 128, 135 / 128, 146 / 128)
    # In units of 2^-7, the spacing of bf16 here, p is 146.51 and q is 153.98.
    found = stored(a * b - c * d)
    fraction = fraction_of(147 / 128 - 153 / 128, found)
    assert fraction is not None
    return fraction


def test_an_interpreted_program_may_both_truncate_and_round_to_nearest() -> None:
    contract = of_program("triton-interpreted", "bf16")
    assert difference(contract) <= 1
    assert difference(replace(contract, store_rounding="toward_zero")) > 1
    assert of_program("aten", "bf16").store_rounding == "nearest"
