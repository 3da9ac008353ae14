"""No bound is vacuous: docs/bounds.json has all rows, and what it says is measured again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equivalence.backends import declared
from equivalence.bounds import planted, updates
from equivalence.bounds.hypotheses import COMPARED, DIVISOR, EXACT, RANGE, noting
from equivalence.budgets import outcome
from equivalence.budgets.judge import Expected
from equivalence.budgets.oracle import expected_value
from equivalence.budgets.outcome import Outcome
from equivalence.registry import OPS, OPTIMIZERS
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
            assert name.split()[0] in OPS, name
            continue
        assert row["bound"] <= outcome.WIDEST, name
        assert float(row["within"]) <= 1 < float(row["beyond"]), name


def test_every_hypothesis_is_met_by_some_row() -> None:
    met = {each for row in KNOWN.values() for each in row.get("met", ())}
    assert met >= {RANGE, DIVISOR, COMPARED, EXACT, "sqrt defined", "log defined", "log1p defined"}


def test_every_tensor_that_a_step_leaves_has_a_bound_above_0() -> None:
    for name, page in OPTIMIZERS.items():
        for result in ("parameter", *page.moments):
            own = [row for known, row in KNOWN.items() if known.startswith(f"{name} {result} ")]
            assert own and all(row["bound"] > 0 for row in own), f"{name} {result}"


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


def test_a_bound_of_a_step_that_lets_twice_itself_pass_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is planted is no failure of the backend, which the walk over steps would keep."""
    monkeypatch.setattr(planted, "_far", lambda near, allowed: near)
    with pytest.raises(AssertionError, match="twice the budget passes"):
        updates.left.__wrapped__("sgd", "fp32")


def test_a_moment_that_no_step_keeps_has_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its row would be left out without a word."""
    monkeypatch.setattr(updates, "tensors", lambda optimizer: ("parameter", "exp_avg", "another"))
    monkeypatch.setattr(updates, "DRAWN", 3)
    monkeypatch.setattr(updates.Updates, "fixed", lambda kind: ())
    found = updates.left.__wrapped__("lion", "fp32")
    assert found["another"] is None and found["exp_avg"] is not None
