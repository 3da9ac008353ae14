"""Conversions round once: what lies beside a tie of 16 bits is told from the tie."""

from __future__ import annotations

import math
import random

import pytest
import torch

from equivalence.cases.fills.ties import nearly_ties
from equivalence.dtypes import DTYPES
from fast.device.bridge import round_number
from fast.device.dtypes import copied
from fast.programs import forward

NARROW = (torch.bfloat16, torch.float16)
BESIDE = nearly_ties(random.Random(0), (600,), DTYPES["fp64"].reach)


@pytest.mark.parametrize("dtype", [*NARROW, torch.float32])
def test_a_number_of_64_bits_is_rounded_once(dtype: torch.dtype) -> None:
    x = torch.tensor([*BESIDE, 1e300, -1e-300, 0.1, math.pi], dtype=torch.float64)
    due = [round_number(one, dtype) for one in x.tolist()]
    assert copied(x, dtype).tolist() == due
    if dtype in NARROW:
        assert x.to(dtype).tolist() != due, "torch rounds twice; else this file is not needed"


@pytest.mark.parametrize("dtype", NARROW)
def test_what_is_no_number_and_the_sign_of_zero_come_through(dtype: torch.dtype) -> None:
    x = torch.tensor([math.inf, -math.inf, -0.0, 0.0, math.nan], dtype=torch.float64)
    found = copied(x, dtype).tolist()
    assert found[:2] == [math.inf, -math.inf] and math.isnan(found[4])
    assert [math.copysign(1.0, zero) for zero in found[2:4]] == [-1.0, 1.0]


def test_a_copy_is_contiguous_and_its_own() -> None:
    x = torch.arange(6, dtype=torch.float64).reshape(2, 3).T
    for dtype in (*NARROW, torch.float32, torch.float64):
        found = copied(x, dtype)
        assert found.is_contiguous() and torch.equal(found.double(), x)
        assert found.data_ptr() != x.data_ptr()


def test_integers_are_rounded_once() -> None:
    x = torch.tensor([2**24 + 2**16 + 1, 2**24 + 2**16, -(2**30) - 2**22 - 1])
    due = [round_number(one, torch.bfloat16) for one in x.tolist()]
    assert copied(x, torch.bfloat16).tolist() == due


@pytest.mark.parametrize("dtype", NARROW)
def test_a_tangent_is_converted_as_its_number_is(dtype: torch.dtype) -> None:
    x, v = (torch.tensor(part, dtype=torch.float64) for part in (BESIDE[:300], BESIDE[300:]))
    with forward.level():
        number, tangent = forward.split(copied(forward.dual(x, v), dtype))
        assert tangent is not None
        assert torch.equal(number, copied(x, dtype)) and torch.equal(tangent, copied(v, dtype))
