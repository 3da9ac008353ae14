"""No bound is vacuous: docs/bounds.json has all rows, and what it says is measured again."""

from __future__ import annotations

import pytest
import torch

from equivalence.backends import declared
from equivalence.bounds import planted
from equivalence.bounds.hypotheses import COMPARED, DIVISOR, EXACT, RANGE, noting
from equivalence.budgets.oracle import expected_value
from equivalence.registry import OPS
from equivalence.worlds.bounded import Bounded
from spec import scalar
from tests.turns import in_turns
from tools import record_bounds

KNOWN = record_bounds.recorded()


def test_every_row_has_a_bound_that_says_something_or_holds_no_numbers() -> None:
    assert [*KNOWN] == record_bounds.rows()
    for name, row in KNOWN.items():
        if "none" in row:
            assert row == {"none": record_bounds.NO_NUMBERS}, name
            continue
        assert row["bound"] <= planted.NARROW, name
        assert float(row["within"]) <= 1 < float(row["beyond"]), name


def test_every_hypothesis_is_met_by_some_row() -> None:
    met = {each for row in KNOWN.values() for each in row.get("met", ())}
    assert met >= {RANGE, DIVISOR, COMPARED, EXACT, "sqrt defined", "log defined", "log1p defined"}


@pytest.mark.slow
@pytest.mark.parametrize("name", in_turns([*KNOWN], 60))
def test_a_row_has_a_bound_that_says_something(name: str) -> None:
    row = record_bounds.measured(name)
    assert row["bound"] <= planted.NARROW
    assert float(row["within"]) <= 1 < float(row["beyond"])


def test_hypotheses_are_noted_only_inside() -> None:
    usual = scalar.less.rule_for(Bounded)
    contract = declared("aten")("softmax", "fp32")
    x = torch.tensor([0.25, 1.5])
    with noting() as met:
        expected_value(OPS["softmax"], [x], {}, contract)
    assert met == {DIVISOR, RANGE}
    assert scalar.less.rule_for(Bounded) is usual


def test_a_bound_that_lets_twice_itself_pass_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    contract = declared("aten")("exp", "fp32")
    expected = expected_value(OPS["exp"], [torch.tensor([0.5, 1.25])], {}, contract)
    found = planted.plant(expected, torch.float32)
    assert found is not None and 0 < found.bound < 2**-20
    monkeypatch.setattr(planted, "_far", lambda near, allowed: near)
    with pytest.raises(AssertionError, match="twice the budget passes"):
        planted.plant(expected, torch.float32)


def test_a_wide_bound_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    contract = declared("aten")("exp", "fp32")
    expected = expected_value(OPS["exp"], [torch.tensor([0.5, 1.25])], {}, contract)
    monkeypatch.setattr(planted, "NARROW", 2**-40)
    assert planted.plant(expected, torch.float32) is None
