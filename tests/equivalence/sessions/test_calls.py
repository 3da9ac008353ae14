"""Runs of calls: what an engine computes late is what it would have been at once.

`engine="replay"` computes at once and compiles nothing, so it shows that the runs themselves are
right. Of the engine that compiles, a few written runs are tried here; `python -m equivalence
machine --engine inductor` drives as many as are asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equivalence.cli import main
from equivalence.sessions.calls.machine import run_calls
from equivalence.sessions.calls.programs import SHARED, lent, scores, tied
from equivalence.sessions.calls.run import Calls
from fast.device.arena import Arena
from fast.runtime.store import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("inductor"),
    pytest.mark.usefixtures("cache"),
]


def place(program: Any) -> int:
    """Return where a program stands among the shared ones."""
    return [shared.run for shared in SHARED].index(program)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_shared_program_is_right_in_any_order(precision: str) -> None:
    seen = run_calls("replay", precision, len(SHARED), 8, 25, 1)
    assert not seen.says, seen.program
    assert seen.cases >= 8 and seen.judged > 500


def test_gradient_memory_that_is_handed_out_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(self: Store) -> Arena:
        if not self._pool:
            self._pool.append(Arena(self.masters.layout, self.options.master, self.options.device))
        return self._pool[-1]

    monkeypatch.setattr(Store, "take_gradients", taken)
    seen = run_calls("replay", "fp32", 2, 8, 25, 1)
    assert seen.says.startswith("memory for gradients is anyone's once")


def pieces(which: int, precision: str) -> Calls:
    """Add up three pieces, update, look, and take one more step: each artifact of a program."""
    run = Calls("inductor", precision)
    run.call(which, 1)
    run.backward(0)
    for seed in (2, 3):
        run.call(which, seed)
        run.backward(0, seed, 0)
    run.step(0, 0.125)
    run.value(0)
    run.call(which, 4)
    run.backward(0)
    run.step(1, 0.125)
    run.end()
    return run


@pytest.mark.full
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("program", [scores, tied])
def test_pieces_are_added_up_inside_the_artifacts(program: Any, precision: str) -> None:
    assert pieces(place(program), precision).ledger.judged > 100


@pytest.mark.full
def test_a_second_pass_over_a_call_leaves_the_first_ones_gradients() -> None:
    run = Calls("inductor", "fp32")
    run.call(place(lent), 1)
    run.backward(1, 5)
    run.backward(0)
    for grads in (0, 1):
        run.ask(grads, 0)
    run.call(place(lent), 2)
    run.backward(0)
    run.release(2)
    run.value(0)
    run.end()


@pytest.mark.full
def test_a_result_that_lies_in_a_parameter_is_what_it_was_before_the_update() -> None:
    run = Calls("inductor", "fp32")
    run.call(place(lent), 1)
    run.backward(0)
    run.step(0, 0.5)
    run.value(1)
    run.end()


@pytest.mark.full
def test_runs_of_calls_are_conformant(tmp_path: Path, capsys: Any) -> None:
    line = ["machine", "--engine", "inductor", "--profile", "quick", "--jobs", "1", "--seed", "1"]
    assert main([*line, "--json", str(tmp_path / "report.json")]) == 0
    assert "2 conformant" in capsys.readouterr().out
