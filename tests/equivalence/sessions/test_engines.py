"""Whole steps that an engine compiles, judged: right ones are within budget, planted ones are not.

`python -m equivalence trainers --engine inductor` judges drawn trainings. Here are fixed ones, and
what may go wrong in a plan: a number that is left in it, a part of a gradient, another's artifact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from equivalence.__main__ import main
from equivalence.budgets.violation import Violation
from equivalence.sessions.compiled import examine_compiled
from equivalence.sessions.trainings import Falling, Text, Training, train
from fast.compiled import artifacts, lowered, lowering, pending

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("inductor")]

Plant = Callable[[pytest.MonkeyPatch], object]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One folder of artifacts for all tests here: each program is compiled once."""
    patch = pytest.MonkeyPatch()
    patch.setenv(artifacts.VARIABLE, str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def three_steps() -> int:
    """Take three steps of a net that draws, and uses a parameter twice; return what was judged."""
    hyper = {"lr": Falling(0.25), "momentum": 0.5, "dampening": 0.25}
    groups = [{"params": [3], "lr": 0.125, "weight_decay": 0.25}]
    steps = [
        {"seed": k, "rows": 4, "form": {}, "before": None, "max_norm": 2.0**-2} for k in (1, 2, 3)
    ]
    text = Text(("dropout", "fixed", "again"), "cross_entropy", "mean")
    training = Training(text, (True,) * 5, "sgd", {**hyper, "groups": groups}, steps)
    return train(training, ("inductor", "eager"), "aten", "fp32").judged


def test_three_whole_steps_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []
    step = pending.Pending.step

    def counted(self: Any, *given: Any) -> None:
        taken.append(self)
        step(self, *given)

    monkeypatch.setattr(pending.Pending, "step", counted)
    assert three_steps() > 100 and len(taken) == 3, "each step is one artifact"


def rate_baked_in(patch: pytest.MonkeyPatch) -> None:
    """Let every step have the numbers of the first."""
    first: list[torch.Tensor] = []
    arguments = lowered.Step.arguments

    def baked(self: Any, *given: Any) -> list[torch.Tensor]:
        *others, numbers = arguments(self, *given)
        if numbers.any() and not first:
            first.append(numbers.clone())
        return [*others, first[0] if first else numbers]

    patch.setattr(lowered.Step, "arguments", baked)


def counter_baked_in(patch: pytest.MonkeyPatch) -> None:
    """Let every step draw what the first one drew."""
    patch.setattr(lowering, "cell", lambda counter: torch.tensor(0))


def updated_too_early(patch: pytest.MonkeyPatch) -> None:
    """Update by what the first use of a parameter gets, before the others have added to it."""

    def first(self: lowering.Contributions, leaf: int, cotangent: torch.Tensor) -> None:
        self.found.setdefault(leaf, cotangent)

    patch.setattr(lowering.Contributions, "accumulate", first)


PLANTED: list[tuple[Plant, str]] = [
    (rate_baked_in, "step 1: parameter 0"),
    (counter_baked_in, "step 1: loss"),
    (updated_too_early, "step 0: gradient of parameter 1"),
]
"""Bugs of plans, and the first thing that each of them spoils."""


@pytest.mark.parametrize(("plant", "spoils"), PLANTED, ids=[p.__name__ for p, _ in PLANTED])
def test_a_planted_plan_is_found(
    plant: Plant, spoils: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match=f"^{spoils}"):
        three_steps()


@pytest.mark.full
@pytest.mark.parametrize("command", ["programs", "trainers"])
def test_what_is_drawn_is_conformant(command: str, tmp_path: Path, capsys: Any) -> None:
    report = tmp_path / "report.json"
    line = [command, "--engine", "inductor", "--profile", "quick", "--jobs", "1"]
    assert main([*line, "--json", str(report)]) == 0
    assert "2 conformant" in capsys.readouterr().out


@pytest.mark.full
def test_a_rule_that_scales_what_it_sends_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = [("tanh", 0, 0), ("mul", 0, 1)]
    assert examine_compiled(program, 1, 2, "inductor", "fp32").judged > 10
    accumulate = lowering.Contributions.accumulate

    def scaled(self: lowering.Contributions, leaf: int, cotangent: torch.Tensor) -> None:
        accumulate(self, leaf, cotangent * (1 + 2.0**-18))

    monkeypatch.setattr(lowering.Contributions, "accumulate", scaled)
    with pytest.raises(Violation, match=r"^gradient of param\d from entry"):
        examine_compiled(program, 1, 2, "inductor", "fp32")


def test_an_engine_that_there_is_not_is_refused(capsys: Any) -> None:
    assert main(["trainers", "--engine", "jit"]) == 2
    assert "unknown engine 'jit'; there are inductor" in capsys.readouterr().err
