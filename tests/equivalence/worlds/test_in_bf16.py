"""Rounding to bf16 on the way: every world of a contract holds what may come of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import exact
from equivalence.worlds.contract import BF16, FP32, Contract
from equivalence.worlds.kinds import PLUS
from equivalence.worlds.special_values import last
from equivalence.worlds.special_values.sets import Line, SpecialValues
from equivalence.worlds.special_values.steps import lifted
from equivalence.worlds.vectorized.numbers import Many, working
from equivalence.worlds.vectorized.widths import Widths
from spec.scalar import in_bf16

CONTRACT = Contract("plain", FP32, FP32)
TRUNCATING = replace(CONTRACT, casts={"bf16": ("toward_zero", "none")})
NARROW = replace(CONTRACT, compute=BF16)

NUMBERS = (1.0 + 2.0**-9, -1.0 - 3 * 2.0**-8, 0.3333333432674408, 2.0**-130 * 1.1)


def rounded(x: float) -> float:
    return torch.tensor(x).bfloat16().item()


@pytest.mark.parametrize("x", NUMBERS)
def test_a_computed_number_may_be_rounded_and_errs_by_no_more(x: float) -> None:
    one, zero = exact(Arithmetic(CONTRACT), x, 2.0**-149)
    found = in_bf16(one + zero)
    assert found.w.contains(found.v) and found.w.contains(rounded(x))
    most = 1.01 * (BF16.unit * abs(x) + 2.0**BF16.least_exponent)
    assert (found.w - found.v).abs_upper() <= most


@pytest.mark.parametrize("x", NUMBERS)
def test_an_exact_number_is_rounded_once(x: float) -> None:
    (one,) = exact(Arithmetic(CONTRACT), x)
    found = in_bf16(one)
    assert not found.exact and found.w.contains(x) and found.w.contains(rounded(x))


def test_who_truncates_may_return_either_neighbour() -> None:
    (one,) = exact(Arithmetic(TRUNCATING), 1.0 + 127 * 2.0**-14)
    assert in_bf16(one).w.contains(1) and in_bf16(one).w.contains(one.v)


@pytest.mark.parametrize("contract", [CONTRACT, NARROW])
def test_a_number_of_bf16_stays(contract: Contract) -> None:
    (one,) = exact(Arithmetic(contract), 0.375)
    assert in_bf16(one) is one


def test_what_was_computed_in_bf16_is_not_rounded_again() -> None:
    one, other = exact(Arithmetic(NARROW), 1.0, 2.0**-9)
    total = one + other
    assert in_bf16(total) is total


def test_what_bf16_cannot_hold_may_be_infinite() -> None:
    largest = float(torch.finfo(torch.float32).max)
    (one,) = lifted(Line(CONTRACT), largest)
    found = in_bf16(one)
    assert isinstance(found, SpecialValues) and found.kinds == PLUS and found.finite is not None
    assert last.stored(in_bf16(one - one)).exact  # type: ignore[union-attr]


def test_arrays_bound_as_balls_do() -> None:
    values = np.array([*NUMBERS, 0.375])
    with working(Widths(CONTRACT), 1):
        taken, computed = in_bf16(Many(values)), in_bf16(Many(values, values * 0))
    assert taken.b is not None and computed.b is not None
    assert taken.b[-1] == 0 and (taken.b[:-1] > 0).all()
    off = np.abs([rounded(x) - x for x in values])
    assert (off <= computed.b).all() and (off <= taken.b).all()
