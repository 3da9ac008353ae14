"""No bound is vacuous: docs/bounds.json has all rows, and what it says is measured again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equivalence.backends import declared
from equivalence.bounds import planted
from equivalence.bounds.hypotheses import COMPARED, DIVISOR, EXACT, RANGE, noting
from equivalence.budgets import outcome
from equivalence.budgets.judge import Expected
from equivalence.budgets.oracle import expected_value
from equivalence.budgets.outcome import Outcome
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
        assert row["bound"] <= outcome.WIDEST, name
        assert float(row["within"]) <= 1 < float(row["beyond"]), name


def test_every_hypothesis_is_met_by_some_row() -> None:
    met = {each for row in KNOWN.values() for each in row.get("met", ())}
    assert met >= {RANGE, DIVISOR, COMPARED, EXACT, "sqrt defined", "log defined", "log1p defined"}


@pytest.mark.slow
@pytest.mark.parametrize("name", in_turns([*KNOWN], 60))
def test_a_row_has_a_bound_that_says_something(name: str) -> None:
    row = record_bounds.measured(name)
    assert row["bound"] <= outcome.WIDEST
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
    monkeypatch.setattr(planted, "WIDEST", 2**-40)
    assert planted.plant(expected, torch.float32) is None


def test_a_judge_that_refuses_half_of_a_budget_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = torch.randn(64, generator=torch.Generator().manual_seed(0))
    expected = expected_value(OPS["sum"], [terms], {}, declared("aten")("sum", "fp32"))
    assert planted.plant(expected, torch.float32) is not None
    best, usual = planted.right(expected, torch.float32), planted.judge_tensor

    def strict(got: torch.Tensor, allowed: Expected) -> Outcome:
        """Refuse all but the nearest number."""
        judged = usual(got, allowed)
        return (
            judged if best is not None and torch.equal(got, best) else replace(judged, fraction=2.0)
        )

    monkeypatch.setattr(planted, "judge_tensor", strict)
    with pytest.raises(AssertionError, match="half of the budget is refused"):
        planted.plant(expected, torch.float32)
