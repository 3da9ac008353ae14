"""Each planted fault is where it says, and a silent one changes no number in the interpreter."""

from __future__ import annotations

import importlib
import inspect
from types import SimpleNamespace

import pytest
import torch

from equivalence.races.planted import PLANTED, Line, OneBuffer, Planted, Stale
from fast.optim import OPTIMIZERS
from fast.optim._functional import Functional
from tools.tree import ROOT

FAST = ROOT / "fast"
LINES = [planted for planted in PLANTED if isinstance(planted.change, Line)]


def lines_of_kernels() -> set[str]:
    """Every line of the files of `fast` that have kernels."""
    files = (path for room in ("kernels", "ops", "optim") for path in (FAST / room).rglob("*.py"))
    return {line.strip() for file in files for line in file.read_text("utf-8").splitlines()}


@pytest.mark.parametrize("planted", LINES, ids=lambda planted: planted.name)
def test_a_planted_line_occurs_once_in_its_function(planted: Planted) -> None:
    change = planted.change
    assert isinstance(change, Line)
    function = getattr(importlib.import_module(change.module), change.function)
    assert inspect.getsource(function.fn).count(change.before) == 1
    assert change.before.count("\n") == change.after.count("\n"), "lines keep their numbers"


def test_the_lines_at_which_they_are_found_are_lines_of_kernels() -> None:
    assert {planted.line for planted in PLANTED} <= lines_of_kernels()


def test_kinds_differ_and_some_are_silent() -> None:
    kinds = {planted.kind for planted in PLANTED}
    assert {"race", "read out of bounds", "write out of bounds", "undefined"} <= kinds
    assert len({planted.name for planted in PLANTED}) == len(PLANTED) >= 6
    assert any(planted.silent for planted in PLANTED)


def updated(steps: int) -> list[object]:
    """Parameters of two lengths, moments and counts after steps of AdamW, interpreted."""
    params = [torch.linspace(-1.0, 1.0, 1500), torch.ones(3)]
    made = Functional(OPTIMIZERS["adamw"], params, {"lr": 0.1}, "triton")
    for step in range(steps):
        made.step([p.sin() + step for p in made.params()])
    state = made.state()
    return [[p.tolist() for p in made.params()], state["step"],
            [[t.tolist() for t in state[name]] for name in ("exp_avg", "exp_avg_sq")]]  # fmt: skip


def test_what_is_silent_changes_no_number_in_the_interpreter() -> None:
    silent = [planted for planted in PLANTED if planted.silent]
    assert [planted.change for planted in silent] == [OneBuffer()], "try every other one here too"
    right = updated(3)
    with OneBuffer().changed():
        assert updated(3) == right
    assert right[1] == [3, 3]


def test_a_stale_one_is_refused_and_a_good_one_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Compiled:
        src = "a = 1\n"

        def _unsafe_update_src(self, source: str) -> None:
            self.src = source

    function = Compiled()
    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace(f=function))
    with Line("m", "f", "a = 1", "a = 2").changed():
        assert function.src == "a = 2\n"
    assert function.src == "a = 1\n"
    with pytest.raises(Stale, match="occurs 0 times"), Line("m", "f", "b", "c").changed():
        raise AssertionError("nothing is planted")
