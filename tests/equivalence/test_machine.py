"""The lifecycle machine: lives keep their promises, and one that does not is told as a program."""

from __future__ import annotations

from typing import Any

import pytest

from equivalence.machine import CONFIGURATIONS, run_lives
from equivalence.machine_twin import Violation
from fast.param import Param

LIVES, STEPS = {"aten": 16, "triton": 6}, 30
"""Interpreted kernels are slow, so they get a shorter run here; `thorough` drives 500 of either."""


@pytest.mark.parametrize(("provider", "precision"), CONFIGURATIONS)
def test_lives_keep_their_promises(provider: str, precision: str) -> None:
    lives = LIVES[provider]
    run = run_lives(provider, precision, lives, STEPS, 0)
    assert not run.says, run.program
    assert run.lives >= lives
    assert run.statements > lives * STEPS
    assert run.judged > lives


def test_the_same_number_drives_the_same_lives() -> None:
    first, again = (run_lives("aten", "fp32", 4, 20, 5) for _ in range(2))
    assert (first.statements, first.judged) == (again.statements, again.judged)
    other = run_lives("aten", "fp32", 4, 20, 6)
    assert (other.statements, other.judged) != (first.statements, first.judged)


def test_a_broken_promise_is_told_as_a_program_that_replays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Param.set

    def forgetful(self: Param, value: Any) -> None:
        current = self.mirror_current
        whole(self, value)
        self.mirror_current = current

    with monkeypatch.context() as patch:
        patch.setattr(Param, "set", forgetful)
        run = run_lives("aten", "fp32", 40, 30, 0)
        assert run.says
        with pytest.raises(Violation):
            exec(run.program, {})
    exec(run.program, {})
