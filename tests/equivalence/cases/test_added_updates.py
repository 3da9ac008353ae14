"""What every optimizer's row meets by rule, read off the tensors of its cases and its events.

What a row cannot meet stands in a table, with the reason.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations, product
from typing import Any

import pytest

from equivalence.cases.call import TORCH
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.cases.declared.inside import all_of
from equivalence.cases.fills.turns import SPOTS
from equivalence.cases.updates import added as rules
from equivalence.cases.updates.design import update_strata
from equivalence.cases.updates.levels import changes, settable
from equivalence.cases.updates.spec import EVENTS, Event, UpdateSpec, read_event, update_from_dict
from equivalence.cases.updates.tensors import Gradients
from equivalence.dtypes import DTYPES
from equivalence.measure.between.company import others
from equivalence.runs.met.numbers import met_by_optimizer, seen, wanted_of_optimizer
from spec.optim import OPTIMIZERS

NAMES = sorted(OPTIMIZERS)
EVERY_DTYPE = tuple(DTYPES)


def cases_of(optimizer: str) -> list[UpdateSpec]:
    """Return the cases of a row in all dtypes, which share them out, with all extras."""
    return [
        case
        for dtype in EVERY_DTYPE
        for case in update_strata(optimizer, dtype, PAIRS, EVERY_DTYPE, all_of(optimizer, dtype))
    ]


@pytest.mark.parametrize("optimizer", NAMES)
def test_every_kind_of_number_stands_everywhere_in_all_that_a_step_reads(optimizer: str) -> None:
    assert wanted_of_optimizer(optimizer) - met_by_optimizer(cases_of(optimizer)) == set()


def clipped_by_one(optimizer: str) -> set[tuple[str, str]]:
    """Return which kind of number stands alone in the gradients of a step that is clipped."""
    met: set[tuple[str, str]] = set()
    for case in cases_of(optimizer):
        shared = case.max_norm is not None and not case.groups
        for step, k, _ in case.spoiled if shared else ():
            item = Gradients(case, "cpu").at(step)[k][1]
            assert item is not None and item.view.numel() == rules.lengths(optimizer)[-1]
            met |= {meeting[1:3] for meeting in seen("gradient", item.view, case.dtype)}
    return met


@pytest.mark.parametrize("optimizer", NAMES)
def test_one_special_number_stands_everywhere_under_a_bound_of_the_norm(optimizer: str) -> None:
    every = {*product(("nan", "inf", "-inf", "largest"), SPOTS)}
    assert every - clipped_by_one(optimizer) == set()


def levels_together(optimizer: str, dtype: str) -> set[Any]:
    """Return which two levels of hyper-parameters meet in a row at `quick`."""
    met: set[Any] = set()
    for case in update_strata(optimizer, dtype, SINGLES):
        for k in range(len(case.shapes)):
            met |= {*combinations(sorted(case.hyper_parameters(k).items()), 2)}
    return met


@pytest.mark.parametrize("optimizer", NAMES)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_every_two_levels_of_hyper_parameters_meet_at_quick(optimizer: str, dtype: str) -> None:
    tried, met = OPTIMIZERS[optimizer].tried, levels_together(optimizer, dtype)
    for one, two in combinations(sorted(tried), 2):
        for pair in product(tried[one], tried[two]):
            both = tuple(zip((one, two), pair, strict=True))
            assert both in met or not settable(optimizer, frozenset(both), stateful=False)


NO_EVENTS: dict[tuple[str, str], str] = {}
"""By optimizer and event: why it is not met."""


@pytest.mark.parametrize("optimizer", NAMES)
def test_every_argument_of_a_step_changes_between_steps_at_quick(optimizer: str) -> None:
    told = [e for case in update_strata(optimizer, "fp32", SINGLES) for e in case.events]
    assert {*EVENTS} - {e.kind for e in told} == {e for o, e in NO_EVENTS if o == optimizer}
    for case in update_strata(optimizer, "fp32", PAIRS):
        for event in case.events:
            before, after = event.step - 1, event.step
            if event.kind == "set_grad_scale":
                assert case.grad_scale_at(before) != case.grad_scale_at(after) == event.number
            if event.kind == "set_max_norm":
                assert case.max_norm_at(before) != case.max_norm_at(after) == event.number
            if event.kind == "set_hyper":
                for k in range(len(case.shapes)):
                    assert case.hyper_parameters(k, after)[event.name] == event.number


@pytest.mark.parametrize("optimizer", NAMES)
def test_every_hyper_parameter_that_is_a_number_changes_between_steps(optimizer: str) -> None:
    told = {e.name for case in cases_of(optimizer) for e in case.events if e.kind == "set_hyper"}
    page = OPTIMIZERS[optimizer]
    plain = {name: among[0] for name, among in page.tried.items()}
    assert told >= {name for name, _ in changes(optimizer, plain, ())}


def test_a_rate_of_the_first_group_alone_leaves_the_others() -> None:
    event = Event(1, "set_first_lr", 0.75)
    case = next(c for c in cases_of("adamw") if c.groups and not c.events)
    changed = UpdateSpec(**{**_fields(case), "events": (event,)})
    assert changed.hyper_parameters(0, 1)["lr"] == 0.75
    grouped = case.groups[0][0][0]
    assert changed.hyper_parameters(grouped, 1) == case.hyper_parameters(grouped, 1)


@pytest.mark.parametrize("optimizer", NAMES)
def test_a_group_has_hyper_parameters_of_the_page_alone(optimizer: str) -> None:
    """What belongs to a whole case, as a scale does, is no group's; bounds may be its own."""
    named = {n for case in cases_of(optimizer) for _, own in case.groups for n, _ in own}
    page = OPTIMIZERS[optimizer]
    assert named and named <= {*page.tried, *page.extras, "max_norm", "max_value"}


@pytest.mark.parametrize("optimizer", NAMES)
def test_the_rate_of_the_first_group_changes_where_others_have_the_same(optimizer: str) -> None:
    """A group that has the rate by its own word keeps it, whoever has set the first one's."""
    parted = [
        [case.hyper_parameters(k, step)["lr"] for k in range(3)]
        for case in update_strata(optimizer, "fp32", SINGLES)
        for step in range(2)
        if len(case.groups) == 2 and [e.kind for e in case.events] == ["set_first_lr"]
    ]
    assert any(before == [before[0]] * 3 for before in parted)
    assert any(after[0] != after[1] == after[2] for after in parted)


def _fields(case: UpdateSpec) -> dict[str, Any]:
    return {name: getattr(case, name) for name in UpdateSpec.__dataclass_fields__}


class _Offers:
    """A backend of some dtypes."""

    def __init__(self, *dtypes: str) -> None:
        self.optimizers = dict.fromkeys(NAMES, dtypes)

    def capabilities(self) -> _Offers:
        return self


@pytest.mark.parametrize("optimizer", NAMES)
def test_other_handles_differ_in_settings_and_in_dtype_and_in_nothing_else(optimizer: str) -> None:
    (case,) = (c for c in update_strata(optimizer, "fp32", SINGLES) if c.company == "otherwise")
    settings, dtype = others(_Offers(*TORCH), case)
    assert settings.shapes == dtype.shapes == case.shapes
    assert settings.dtype == case.dtype != dtype.dtype
    assert settings.hyper != case.hyper == dtype.hyper
    assert len(others(_Offers("fp32"), case)) == 1


def test_a_case_and_an_event_of_an_older_format_are_read() -> None:
    plain: dict[str, Any] = {
        "optimizer": "sgd",
        "dtype": "fp32",
        "shapes": [[2]],
        "parameters": ["normal", 0, "contiguous"],
        "gradients": ["normal", 0, "contiguous"],
        "hyper": {"lr": 0.5},
        "steps": 2,
        "events": [[1, "set_lr", 0.75, ["normal", 0, "contiguous"]]],
        "spoiled": [[1, 0, "inf"]],
    }
    case = update_from_dict(plain)
    assert case.company == "alone" and case.events == (Event(1, "set_lr", 0.75, case.parameters),)
    item = Gradients(case, "cpu").at(1)[0][1]
    assert item is not None and math.isinf(float(item.view[0]))
    named = Event(1, "set_hyper", 0.5, case.parameters, "momentum")
    assert read_event(named.plain()) == named and len(case.events[0].plain()) == 4
    with pytest.raises(ValueError, match="unknown company 'crowd'"):
        update_from_dict({**plain, "company": "crowd"})


@cache
def without(rule: str) -> dict[int, tuple[rules.Rule, ...]]:
    """Return the rules without one of them."""
    return {k: tuple(r for r in own if r.__name__ != rule) for k, own in rules.RULES.items()}


@pytest.mark.parametrize(
    ("rule", "check"),
    [
        ("specials", test_every_kind_of_number_stands_everywhere_in_all_that_a_step_reads),
        ("clipped", test_one_special_number_stands_everywhere_under_a_bound_of_the_norm),
        ("parting", test_the_rate_of_the_first_group_changes_where_others_have_the_same),
        ("beside", test_other_handles_differ_in_settings_and_in_dtype_and_in_nothing_else),
    ],
)
def test_a_rule_that_is_removed_is_missed(
    rule: str, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check("adam")
    monkeypatch.setattr(rules, "RULES", without(rule))
    with pytest.raises((AssertionError, ValueError)):
        check("adam")


def test_two_levels_that_no_longer_meet_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RULES", without("settings"))
    with pytest.raises(AssertionError):
        test_every_two_levels_of_hyper_parameters_meet_at_quick("adam", "fp32")
