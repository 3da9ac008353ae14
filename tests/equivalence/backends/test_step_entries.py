"""What an entry of an update is left follows from its own numbers, and not from its neighbours'."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.backends import declared
from equivalence.budgets.outcome import Outcome
from equivalence.cases.updates import added
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.update import measure_update
from spec.optim import OPTIMIZERS
from tests.equivalence.backends.wrong_steps import WRITTEN, Stepping, Steps


def special_gradients(optimizer: str) -> UpdateSpec:
    """Return the case in which all kinds of special numbers are among the gradients."""
    (found,) = (
        case
        for case, levels in added.specials(optimizer, "fp32")
        if levels["case"] == "special numbers in gradients"
    )
    return found


def measured(steps: type[Steps], case: UpdateSpec) -> Outcome:
    return measure_update(Stepping(steps), case, declared("torch")(case.optimizer, "fp32"))


def replacing(old: float, new: float) -> type[Steps]:
    """Return optimizers that take a number among later gradients for another."""

    class Replacing(Steps):
        def update(self, k: int, g: Tensor) -> None:
            wrong = g == old
            if g.numel() > 1000:
                wrong.reshape(-1)[:1000] = False
                g = torch.where(wrong, torch.full_like(g, new), g)
            super().update(k, g)

    return Replacing


@pytest.mark.parametrize("optimizer", WRITTEN)
def test_a_right_one_passes(optimizer: str) -> None:
    outcome = measured(Steps, special_gradients(optimizer))
    assert not outcome.failed and outcome.crash is None


@pytest.mark.parametrize("optimizer", WRITTEN)
@pytest.mark.parametrize("old", [float("inf"), float("-inf")])
@pytest.mark.parametrize("new", [0.0, 1.0, torch.finfo(torch.float32).max])
def test_an_infinity_among_large_numbers_is_no_finite_number(
    optimizer: str, old: float, new: float
) -> None:
    assert measured(replacing(old, new), special_gradients(optimizer)).failed


@pytest.mark.parametrize("optimizer", WRITTEN)
def test_a_usual_number_beside_special_ones_has_its_budget(optimizer: str) -> None:
    class Blurred(Steps):
        def update(self, k: int, g: Tensor) -> None:
            super().update(k, torch.where(g.abs() < 10, g * (1 + 1e-4), g))

    class Spread(Steps):
        def update(self, k: int, g: Tensor) -> None:
            bad: Any = torch.where(g.isfinite().all(), g, torch.full_like(g, torch.nan))
            super().update(k, bad)

    assert OPTIMIZERS[optimizer].elementwise
    for wrong in (Blurred, Spread):
        assert measured(wrong, special_gradients(optimizer)).failed
