"""Any optimizer has cases, also one that is unlike Adam.

Planted are a step by signs with one moment and no betas, and a step whose rate has another name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.shrink import smaller_updates
from equivalence.cases.strategies import draw_many
from equivalence.cases.updates.design import (
    spoiled_cases,
    update_specs,
    update_strata,
    walk,
)
from equivalence.measure.sizes import sized_update
from equivalence.runs.choice import read_case
from spec.op import AnyTensor, refuse, zeros_like
from spec.optim import OPTIMIZERS
from spec.optim._optimizer import Optimizer
from spec.scalar import less, lift, select
from spec.tensor import zip_map


@dataclass(frozen=True)
class Signs:
    """The hyper-parameters; no rate above 1/4 is accepted."""

    lr: float = 0.125
    momentum: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a rate that is too large."""
        if not 0 <= self.lr <= 0.25:
            raise refuse("planted C1", "lr lies in [0, 1/4]", self.lr)


@dataclass(frozen=True)
class Paced:
    """One hyper-parameter, which is a rate by another name."""

    pace: float = 0.5


@dataclass(frozen=True)
class State:
    """One moment."""

    average: AnyTensor


@dataclass(frozen=True)
class Nothing:
    """Nothing is remembered."""


def init(parameter: AnyTensor) -> State:
    return State(zeros_like(parameter))


def by_signs(p: AnyTensor, g: AnyTensor, state: State, hyper: Signs) -> tuple[AnyTensor, State]:
    average = zip_map(lambda m, x: lift(m, hyper.momentum) * m + x, state.average, g)
    return zip_map(
        lambda a, m: a - select(less(lift(m, 0), m), lift(a, hyper.lr), lift(a, -hyper.lr)),
        p,
        average,
    ), State(average)


def by_pace(p: AnyTensor, g: AnyTensor, state: Any, hyper: Paced) -> tuple[AnyTensor, Any]:
    return zip_map(lambda a, x: a - lift(a, hyper.pace) * x, p, g), state


PLANTED = {
    "planted_signs": Optimizer(
        "planted_signs",
        Signs,
        State,
        init,
        by_signs,
        tried={"lr": (0.125, 0.0, 0.01), "momentum": (0.0, 0.9)},
        alone=("lr",),
        refused=(("C1", {"lr": math.inf}),),
    ),
    "planted_pace": Optimizer(
        "planted_pace",
        Paced,
        Nothing,
        lambda parameter: Nothing(),
        by_pace,
        tried={"pace": (0.5, 0.1)},
        alone=("pace",),
        refused=(),
    ),
}


@pytest.fixture(params=PLANTED)
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Optimizer:
    page = PLANTED[request.param]
    monkeypatch.setitem(OPTIMIZERS, page.name, page)
    return page


def settings(case: Any) -> list[dict[str, Any]]:
    """Return all settings by which the parameters of a case take their steps."""
    return [
        case.hyper_parameters(parameter, step)
        for parameter in range(len(case.shapes))
        for step in range(min(case.steps, 4))
    ]


def test_every_case_has_settings_that_the_page_accepts(planted: Optimizer) -> None:
    name = planted.name
    found = [
        *update_strata(name, "fp32", SINGLES),
        *update_strata(name, "fp32", PAIRS),
        *spoiled_cases(name, "fp32"),
        *draw_many(update_specs(name, "fp32"), 30, seed_=0),
        sized_update(name, "fp32"),
    ]
    assert len(found) > 40
    for case in found:
        assert all(planted.hyper(**hyper) for hyper in settings(case))
        assert read_case(case.to_json())[1] == case
    met = {value for case in found for hyper in settings(case) for value in hyper.items()}
    assert met >= {(name, value) for name, among in planted.tried.items() for value in among}


def test_a_walk_takes_many_small_steps_of_the_page_s_own(planted: Optimizer) -> None:
    case = walk(planted.name, "bf16")
    (rate, among), *_ = planted.tried.items()
    assert case.steps == 1000
    assert {hyper[rate] for hyper in settings(case)} <= set(among) - {0.0}


def test_a_failing_case_becomes_smaller(planted: Optimizer) -> None:
    case = update_strata(planted.name, "fp32", PAIRS)[5]
    smaller = list(smaller_updates(case))
    assert smaller and all(planted.hyper(**h) for one in smaller for h in settings(one))
