"""The judge of optimizers: right ones of other forms pass, and each mistake is caught."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from equivalence.backends import declared
from equivalence.budgets.outcome import Outcome
from equivalence.cases.call import Recipe
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.updates.design import update_strata
from equivalence.cases.updates.levels import permitted_pairs, plainest
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.between.events import same_bits
from equivalence.measure.update import measure_update
from equivalence.runs.results import Row
from equivalence.runs.runner import run_row
from tests.equivalence.backends import wrong_steps
from tests.equivalence.backends.wrong_steps import Stepping, Steps
from tests.turns import in_turns


def measured(steps: type[Steps], case: UpdateSpec) -> Outcome:
    return measure_update(Stepping(steps), case, declared("torch")(case.optimizer, "fp32"))


FORMS = [
    ("Steps", SINGLES),
    ("Steps", PAIRS),
    ("InDouble", SINGLES),
    ("InPlace", SINGLES),
    ("Expanded", SINGLES),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "form"),
    in_turns(product(wrong_steps.WRITTEN, FORMS), 4),
)
def test_a_right_one_of_another_form_is_accepted(optimizer: str, form: tuple[str, int]) -> None:
    steps, strength = form
    kind: type[Steps] = getattr(wrong_steps, steps)
    failed = [
        (outcome, case.to_json())
        for case in update_strata(optimizer, "fp32", strength)
        if (outcome := measured(kind, case)).failed
    ]
    assert failed == []


def test_a_decoupled_decay_may_be_subtracted() -> None:
    """Where little is kept of a parameter, p - r p errs more than (1 - r) p may."""
    hyper = {**plainest("adamw"), "lr": 0.97, "weight_decay": 1.0, "eps": 1.0}
    numbers = Recipe("normal", 1), Recipe("small", 2)
    settings = permitted_pairs("adamw", hyper)
    case = UpdateSpec("adamw", "fp32", ((250, 400),), *numbers, settings, steps=2)
    assert not measured(wrong_steps.DecaySubtracted, case).failed
    page = replace(declared("torch")("adamw", "fp32"), freedom="page")
    assert measure_update(Stepping(wrong_steps.DecaySubtracted), case, page).failed


@pytest.mark.parametrize(
    ("steps", "optimizer"),
    [
        ("Restrided", "adamw"),
        ("MemoryOrder", "adam"),
        ("PastTheView", "adamw"),
        ("OneBeta", "adam"),
        ("OneEps", "adamw"),
        ("FrozenLr", "sgd"),
        ("DeafToLoad", "sgd"),
        ("DeafToLoad", "adam"),
        ("LoadsMoments", "adam"),
        ("LoadsAliases", "adam"),
        ("Shadowed", "sgd"),
        ("AliasedBuffer", "sgd"),
        ("ScaledInPlace", "sgd"),
        ("CachedGradient", "adam"),
        ("SharedCount", "adam"),
        ("NarrowPower", "adam"),
        ("RunningPower", "adamw"),
        ("FirstThirtyTwo", "sgd"),
        ("NoTail", "sgd"),
        ("DecaysAnyway", "adamw"),
    ],
)
def test_a_mistake_is_caught(steps: str, optimizer: str) -> None:
    kind: type[Steps] = getattr(wrong_steps, steps)
    outcomes = (measured(kind, case) for case in update_strata(optimizer, "fp32"))
    caught = next((outcome for outcome in outcomes if outcome.failed), None)
    assert caught is not None and caught.crash is None


class _Poor(Stepping):
    """A backend whose handle has nothing that is optional."""

    def optimizer(self, name: str, params: object, hyper: object) -> object:  # type: ignore[override]
        return _Bare(Steps(name, params, hyper))  # type: ignore[arg-type]


class _Bare:
    def __init__(self, held: Steps) -> None:
        self.step, self.params, self.state = held.step, held.params, held.state


def test_what_a_handle_lacks_is_left_out_and_the_row_says_so() -> None:
    found = run_row(_Poor(Steps), Row("sgd", "update", "fp32"), counted=8, seed=0, findings=())
    assert found.status == "conformant" and found.cases >= 8
    assert any("set_lr" in what for what in found.left_out)


def test_bits_are_compared_in_any_layout_and_dtype() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        one = torch.ones(1, dtype=dtype)
        for other in (one.as_strided((1,), (0,)), one.expand(1), one.reshape(1)):
            assert same_bits(one, other)
        wide = one.reshape(()).expand(3, 2)
        assert same_bits(wide, torch.ones(3, 2, dtype=dtype))
        assert not same_bits(wide, torch.zeros(3, 2, dtype=dtype))
    assert not same_bits(torch.zeros(2), torch.zeros(2, dtype=torch.float64))
    assert same_bits(None, torch.zeros(2)) and not same_bits(None, torch.ones(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_nan_equals_any_other_and_a_zero_keeps_its_sign(dtype: torch.dtype) -> None:
    nan = torch.tensor([float("nan"), 1.0], dtype=dtype)
    word = torch.zeros(1, dtype=dtype).view(torch.uint8).numel()
    other = nan.clone()
    other.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[word])[0] += 1
    assert not torch.equal(nan.view(torch.uint8), other.view(torch.uint8))
    assert same_bits(nan, other) and same_bits(other, nan)
    for number in (1.0, float("inf"), 0.0):
        assert not same_bits(nan, torch.tensor([number, 1.0], dtype=dtype))
    assert not same_bits(torch.tensor([0.0], dtype=dtype), torch.tensor([-0.0], dtype=dtype))
    assert torch.isnan(nan[0]) and torch.isnan(other[0]), "what is compared stays as it is"
