"""Whole steps that an engine compiles, judged: right ones are within budget, planted ones are not.

`python -m equivalence trainers --engine inductor` judges drawn trainings. Here are fixed ones, and
what may go wrong in a plan: a number that is left in it, a part of a gradient, another's artifact.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from equivalence.__main__ import main
from equivalence.budgets.violation import Violation
from equivalence.sessions.compiled import examine_compiled
from equivalence.sessions.numbers import normal
from equivalence.sessions.trainers import Batch, TrainerPair
from equivalence.sessions.trainings import Falling, Text, Training, batch, train, values
from fast.compiled import lowered, lowering, naming, pending, session
from fast.compiled.recorded import inputs, plan

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("inductor"),
    pytest.mark.usefixtures("cache"),
]

Plant = Callable[[pytest.MonkeyPatch], object]


TEXT = Text(("dropout", "fixed", "again"), "cross_entropy", "mean")
"""A net that draws, and uses a parameter twice."""

HYPER = {
    "lr": Falling(0.25),
    "momentum": 0.5,
    "dampening": 0.25,
    "groups": [{"params": [3], "lr": 0.125, "weight_decay": 0.25}],
}
NORM = 2.0**-2


def three_steps() -> int:
    """Take three steps of the net; return what was judged."""
    steps = [
        {"seed": k, "rows": 4, "form": {}, "before": None, "max_norm": NORM} for k in (1, 2, 3)
    ]
    training = Training(TEXT, (True,) * 5, "sgd", HYPER, steps)
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


def steps_by_labels_of_both_widths() -> int:
    """Take a step of the net by labels of 64 bits, and one by labels of 32; count the judged.

    The memory of the second ones goes on, and read by 64 bits it names classes, too.
    """
    pair = TrainerPair(TEXT, values(7), (True,) * 5, ("inductor", "eager"))
    for k, longer in enumerate((None, torch.tensor([1, 0, 1, 0, 0, 0, 1, 0], dtype=torch.int32))):
        x, labels = batch(TEXT, k + 1, 4, torch.float32).data
        given = labels if longer is None else longer[:4]
        pair.step(f"step {k}", "sgd", Batch([x, given]), **HYPER, max_norm=NORM)
    return pair.ledger.judged


@pytest.mark.full
def test_labels_of_32_bits_are_read_as_64_where_nobody_converts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert steps_by_labels_of_both_widths() > 50
    monkeypatch.setattr(inputs, "to_integers", lambda labels, device: labels)
    monkeypatch.setattr(session, "kind_of", lambda value: (value.shape,))
    with pytest.raises(Violation, match=r"^step 1: loss"):
        steps_by_labels_of_both_widths()


@dataclass(frozen=True)
class Along:
    """A loss with an attribute, the axis along which numbers are compared, that reads h twice."""

    axis: int

    def __call__(self, ops: Any, w: Any, x: Any) -> Any:
        """Run it; `ops` is a session of either side."""
        h = ops.matmul(x, w)
        return ops.sum(ops.mul(ops.softmax(h, axis=self.axis), h))


def step_along(axis: int, interpreter: str = "inductor", steps: int = 1) -> None:
    """Take steps of a loss along an axis."""
    pair = TrainerPair(Along(axis), [normal(1, 3, 3)], (True,), (interpreter, "eager"))
    for _ in range(steps):
        pair.step("step", "sgd", Batch([normal(2, 3, 3)]), lr=0.5)


def without_attributes(program: naming.Calls, wanted: Any, given: Any) -> str:
    """Name an artifact as `naming.key` does, but by the ops of its program alone."""
    targets = [line.partition("(")[0] for line in program.text.splitlines()]
    kinds = [(tuple(t.shape), t.stride(), str(t.dtype)) for t in given]
    return hashlib.sha256(repr((targets, wanted, kinds)).encode()).hexdigest()


@pytest.mark.full
def test_an_artifact_is_named_by_attributes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for axis in (0, 1):
        step_along(axis)
    monkeypatch.setattr(naming, "key", without_attributes)
    step_along(0)
    with pytest.raises(Violation, match=r"^step: loss"):
        step_along(1)


def test_a_buffer_is_kept_until_its_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a replay: a plan with this bug is not compiled at all, since its trace breaks off."""
    step_along(0, "compiled", steps=2)
    readers = plan._readers

    def first_readers(log: Any, out: Any) -> Any:
        needed, last = readers(log, out)
        for identity, entry in reversed([*log.calls()]):
            for source in entry.sources:
                if isinstance(source, int) and last.get(source, 0) not in (0, float("inf")):
                    last[source] = identity
        return needed, last

    monkeypatch.setattr(plan, "_readers", first_readers)
    with pytest.raises(Violation, match=r"^step: the loss of the step itself: float32 nan"):
        step_along(0, "compiled", steps=2)


@pytest.mark.full
@pytest.mark.parametrize("command", ["programs", "trainers"])
def test_what_is_drawn_is_conformant(command: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    line = [command, "--engine", "inductor", "--profile", "quick", "--jobs", "1"]
    assert main([*line, "--json", str(report)]) == 0
    rows = json.loads(report.read_text("utf-8"))["rows"]
    assert {row["status"] for row in rows} == {"conformant"}
    assert all(row["op"].startswith("inductor") for row in rows)


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


def test_what_draws_is_judged_in_each_of_its_runs() -> None:
    """A gradient is asked for from a second run, whose numbers are not those of the first."""
    assert examine_compiled([("rand_uniform", 1, 1)], 0, 1, "replay", "fp32").judged > 20


def test_an_engine_that_there_is_not_is_refused(capsys: Any) -> None:
    assert main(["trainers", "--engine", "jit"]) == 2
    assert "unknown engine 'jit'; there are inductor" in capsys.readouterr().err
