"""What is written down otherwise than torch would: tests that fail if nothing is."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fast.compiled import inductor, naming

SIXTEEN = [torch.bfloat16, torch.float16]
NUMBERS = [0.001, 1000.3, 2049]
"""Numbers that neither format of 16 bits has."""

CALLS = [operator.add, operator.sub, operator.mul, operator.truediv]


def beside_numbers(*given: Tensor) -> list[Tensor]:
    """Compute each tensor with each number."""
    return [call(x, number) for x in given for call in CALLS for number in NUMBERS]


@pytest.mark.slow
@pytest.mark.xdist_group("inductor")
def test_a_number_beside_16_bits_is_not_rounded_to_them() -> None:
    """As torch's own kernels have it: they compute in 32 bits, and round what they store."""
    given = [torch.linspace(-63.25, 63.25, 35).to(dtype) for dtype in SIXTEEN]
    package = inductor.built(inductor.traced(beside_numbers, given), given, brief=True)
    due = [result.to(x.dtype) for x in given for result in beside_numbers(x.float())]
    assert all(map(torch.equal, inductor.loaded(package)(given), due))


POWERS = [-1, -2.0, -3, -8, -31]
"""Whole powers below 0 that Inductor writes out as products."""


def negative_powers(*given: Tensor) -> list[Tensor]:
    """Raise each tensor to each power."""
    return [x.pow(power) for x in given for power in POWERS]


@pytest.mark.slow
@pytest.mark.xdist_group("inductor")
def test_a_power_below_0_is_1_over_a_product() -> None:
    """A power of 1/x would have its rounding as often as the power says."""
    draw = torch.Generator().manual_seed(0)
    uniform = torch.rand(2**12, dtype=torch.float64, generator=draw) + 0.5
    given = [uniform.float(), uniform, torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan])]
    package = inductor.built(inductor.traced(negative_powers, given), given, brief=True)
    due = [product(x, -int(power)).reciprocal() for x in given for power in POWERS]
    found = inductor.loaded(package)(given)
    for ours, theirs in zip(found, due, strict=True):
        assert torch.equal(ours.nan_to_num(2.5), theirs.nan_to_num(2.5))
        assert torch.equal(ours.signbit(), theirs.signbit())


def product(x: Tensor, power: int) -> Tensor:
    """Multiply as the binary digits of the power say, from the first."""
    found = x
    for digit in f"{power:b}"[1:]:
        found = found * found * x if digit == "1" else found * found
    return found


@pytest.mark.parametrize("call", CALLS)
def test_rounding_the_number_would_be_seen(call: Callable[[Any, Any], Any]) -> None:
    for dtype in SIXTEEN:
        x = torch.linspace(-63.25, 63.25, 35).to(dtype)
        rounded = [torch.tensor(number, dtype=dtype).float() for number in NUMBERS]
        results = [call(x.float(), number).to(dtype) for number in NUMBERS]
        others = [call(x.float(), number).to(dtype) for number in rounded]
        assert not all(map(torch.equal, results, others))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_other_dtypes_are_called_as_they_are(dtype: torch.dtype) -> None:
    called = naming.noted(lambda x: [x * 3], [torch.ones(2, dtype=dtype)]).text
    assert called.startswith("aten.mul.Tensor([%0, 3], {})\nreturn")
