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
