"""Updates that repeat something are judged turn by turn, from what a backend made of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.backends import load
from equivalence.budgets.outcome import too_wide
from equivalence.cases.call import Recipe, attribute_pairs
from equivalence.cases.updates.spec import Event, UpdateSpec
from equivalence.measure.update import Judging, measure_update
from population.pieces.orthogonal import Muon
from population.pieces.steppers import Hyper
from spec.optim import OPTIMIZERS

CONTRACT = load("fast-aten").capabilities().contract("muon", "fp32")
PAGE = OPTIMIZERS["muon"]


class Inexact(Muon):
    """One turn has a coefficient that is off by three parts in a hundred thousand."""

    turn = 0

    def turned(self, x: Tensor, h: Hyper, turn: int) -> Tensor:
        own = {**h, "ns_a": h["ns_a"] * (1 + 3e-5)} if turn == self.turn else h
        return super().turned(x, own, turn)


class InBf16(Muon):
    """The iteration is torch's, in bf16; in one turn a coefficient is off by a tenth."""

    turn = -1

    def orthogonal(self, u: Tensor, h: Hyper) -> Tensor:
        return super().orthogonal(u.bfloat16(), h).float()

    def turned(self, x: Tensor, h: Hyper, turn: int) -> Tensor:
        own = {**h, "ns_a": h["ns_a"] * 1.1} if turn == self.turn else h
        gram = x @ x.t()
        factor = torch.addmm(gram, gram, gram, beta=own["ns_b"], alpha=own["ns_c"])
        return torch.addmm(x, factor, x, beta=own["ns_a"])


class Backend:
    """A backend of one class of handles; it may have no `load`."""

    name = "turns"

    def __init__(self, kind: type[Muon], loads: bool = True) -> None:
        self.kind, self.loads = kind, loads

    def capabilities(self) -> Any:
        return load("fast-aten").capabilities()

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Any:
        made = self.kind(params, hyper)
        if not self.loads:
            made.load = None  # type: ignore[method-assign, assignment]
        return made


def case(**more: Any) -> UpdateSpec:
    hyper = attribute_pairs({**PAGE.defaults, "lr": 0.5, **more.pop("hyper", {})})
    shapes = ((3, 5), (5, 3), (4, 4))
    numbers = Recipe("normal", 1), Recipe("normal", 2)
    return UpdateSpec("muon", "fp32", shapes, *numbers, hyper, **{"steps": 2, **more})


@pytest.mark.parametrize("turn", range(5))
def test_a_mistake_of_any_one_turn_is_seen(turn: int) -> None:
    wrong = type("Wrong", (Inexact,), {"turn": turn})
    assert measure_update(Backend(wrong), case(), CONTRACT).failed


@pytest.mark.parametrize("rate", [None, "match_rms_adamw"])
def test_right_turns_pass_and_every_number_is_judged(rate: str | None) -> None:
    outcome = measure_update(Backend(Muon), case(hyper={"adjust_lr_fn": rate}), CONTRACT)
    assert not outcome.failed, outcome.detail
    assert outcome.judged and not outcome.wide and not outcome.unconstrained


@pytest.mark.parametrize("turn", range(5))
def test_a_mistake_of_any_one_turn_in_bf16_is_seen(turn: int) -> None:
    wrong = type("Wrong", (InBf16,), {"turn": turn})
    assert measure_update(Backend(wrong), case(hyper={"ns_dtype": "bf16"}), CONTRACT).failed


def test_turns_in_bf16_pass_where_they_are_asked_for_and_nearly_all_of_their_budgets_count() -> (
    None
):
    outcome = measure_update(Backend(InBf16), case(hyper={"ns_dtype": "bf16"}), CONTRACT)
    assert not outcome.failed, outcome.detail
    assert not too_wide(outcome.judged, outcome.wide) and not outcome.unconstrained
    assert measure_update(Backend(InBf16), case(), CONTRACT).failed


def test_a_state_that_was_loaded_is_handed_on() -> None:
    event = Event(0, "load", 1, Recipe("normal", 3))
    outcome = measure_update(Backend(Muon), case(events=(event,), steps=1), CONTRACT)
    assert not outcome.failed and not outcome.wide


def test_a_handle_without_load_shows_its_first_step_alone() -> None:
    first = measure_update(Backend(Muon, loads=False), case(steps=1), CONTRACT)
    assert not first.failed and not first.wide
    both = measure_update(Backend(Muon, loads=False), case(), CONTRACT)
    assert not both.failed and both.wide


def test_one_bound_over_five_turns_says_nothing() -> None:
    from equivalence.measure.shadow import measure_steps

    outcome = measure_steps(Backend(Muon), case(), Judging(CONTRACT))
    assert outcome.wide and not outcome.failed
