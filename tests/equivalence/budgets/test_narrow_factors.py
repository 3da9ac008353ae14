"""A factor that a product reads in a narrower format may leave its range, and be infinite."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.oracle import expected_value
from equivalence.worlds.contract import FP32, TF32, Contract, Rounding

LARGEST = torch.finfo(torch.float32).max
"""It lies beyond all numbers of TF32, and rounds up to infinity there."""


def judged(got: float, factor: float, rounding: Rounding | None) -> bool:
    contract = Contract("product", FP32, FP32)
    if rounding is not None:
        contract = replace(contract, dot_inputs=TF32, dot_rounding=rounding)
    inputs = [torch.tensor([[2.0**-120, 2.0**-119]]), torch.tensor([[factor], [1.0]])]
    expected = expected_value("matmul", inputs, {}, contract)
    return not judge_tensor(torch.tensor([[got]]), expected).failed


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_overflows_in_the_narrower_format_is_infinite(sign: float) -> None:
    assert judged(sign * math.inf, sign * LARGEST, "nearest")
    assert not judged(-sign * math.inf, sign * LARGEST, "nearest")
    assert not judged(math.nan, sign * LARGEST, "nearest")
    assert judged(sign * 2.0**8, sign * LARGEST, "nearest"), "who saturates is within the budget"


def test_no_other_factor_is() -> None:
    assert not judged(math.inf, LARGEST, "toward_zero")
    assert judged(2.0**8 * (1 - 2.0**-11), LARGEST, "toward_zero")
    assert not judged(math.inf, LARGEST, None)
    assert judged(2.0**8, LARGEST, None)
    assert not judged(math.inf, TF32.max_finite, "nearest")
