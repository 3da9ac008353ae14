"""The rule of the judge: |got - exact| / budget, element by element."""

from __future__ import annotations

import math

import pytest
import torch

from equivalence.budgets.judge import fraction_of, judge_tensor
from equivalence.budgets.outcome import merged
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, exact, stored
from equivalence.worlds.contract import BF16, FP32, Contract
from spec import scalar
from spec.tensor import Tensor

IEEE = Contract("ieee", FP32, FP32)


def thirds(*values: float, contract: Contract = IEEE) -> Tensor[Bounded, int]:
    """Return a third of each value, stored."""
    scalars = exact(Arithmetic(contract), *values)
    return Tensor((len(values),), [stored(scalar.divide(x, 3)) for x in scalars])


def test_a_budget_of_zero_demands_equality() -> None:
    expected = thirds(3.0, 0.0)
    assert judge_tensor(torch.tensor([1.0, 0.0]), expected).fraction == 0
    verdict = judge_tensor(torch.tensor([1.0, 1e-30]), expected)
    assert verdict.fraction == math.inf and verdict.status == "nonconformant"
    detail = verdict.detail
    assert detail is not None and detail.index == (1,) and float(detail.budget) == 0
    assert torch.tensor(float(detail.got)) == torch.tensor(1e-30)


def test_the_correctly_rounded_result_is_within_one_rounding() -> None:
    expected = thirds(1.0, 2.0, 5.0)
    verdict = judge_tensor(torch.tensor([1.0, 2.0, 5.0]) / 3, expected)
    assert verdict.status == "conformant" and verdict.judged == 3
    assert verdict.fraction is not None and 0 < verdict.fraction <= 1
    assert verdict.detail is None


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_infinitely_wrong(wrong: float) -> None:
    verdict = judge_tensor(torch.tensor([1 / 3, wrong]), thirds(1.0, 2.0))
    assert verdict.fraction == math.inf
    assert verdict.detail is not None and verdict.detail.index == (1,)


def test_shape_and_dtype_must_be_those_expected() -> None:
    expected = thirds(1.0, 2.0)
    for got, word in ((torch.ones(1, 2), "shape"), (torch.ones(2).double(), "dtype")):
        verdict = judge_tensor(got, expected)
        assert verdict.status == "nonconformant" and word in (verdict.problem or "")
    narrow = thirds(1.0, contract=Contract("bf16", FP32, BF16))
    assert judge_tensor(torch.tensor([1 / 3]).bfloat16(), narrow).status == "conformant"


def test_unconstrained_elements_are_counted_and_capped() -> None:
    one, zero = exact(Arithmetic(IEEE), 1.0, 0.0)
    lost = scalar.divide(one, zero)
    many = Tensor((40,), [lost, *[one] * 39])
    verdict = judge_tensor(torch.ones(40), many)
    assert (verdict.status, verdict.judged, verdict.unconstrained) == ("conformant", 39, 1)
    few = Tensor((2,), [lost, one])
    assert judge_tensor(torch.tensor([math.nan, 1.0]), few).status == "ambiguous"
    none = judge_tensor(torch.ones(1), Tensor((1,), [lost]))
    assert none.fraction is None and none.status == "ambiguous"
    assert judge_tensor(torch.ones(0), Tensor((0,), ())).status == "vacuous"


def test_the_exact_value_is_not_blamed_for_its_radius() -> None:
    (third,) = thirds(1.0).data
    assert not third.v.is_exact()
    assert fraction_of(0.0, third) is not None and fraction_of(0.0, third) != 0


def test_a_merged_verdict_counts_all_and_shows_the_worst() -> None:
    good = judge_tensor(torch.tensor([1 / 3]), thirds(1.0))
    bad = judge_tensor(torch.tensor([1.0, 0.5, 0.25]), thirds(3.0, 0.0, 0.75))
    both = merged(good, bad)
    assert both.judged == 4 and both.detail == bad.detail and bad.detail is not None
    assert bad.detail.index == (1,)
    assert both.status == "nonconformant" and both.fraction == math.inf
    assert merged().status == "vacuous"
