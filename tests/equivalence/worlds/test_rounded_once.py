"""An exact number that is rounded once has one right result, in every world of numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from equivalence.backends import declared
from equivalence.budgets.arrays import Call, allowed, judge_arrays
from equivalence.budgets.judge import fraction_of, judge_tensor, record
from equivalence.budgets.oracle import expected_value
from equivalence.budgets.recorded import judge_recorded
from equivalence.cases.fills.ties import BEYOND, TIES, nearly_ties
from equivalence.dtypes import BF16, DTYPES, FORMATS, FP16, FP32, FP64, Format
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import exact, stored
from equivalence.worlds.contract import Contract, Form
from equivalence.worlds.past import hull
from equivalence.worlds.steps import RoundingStep
from spec import scalar

RULE = declared("generic")
NARROW = {"bf16": torch.bfloat16, "fp16": torch.float16}


def nearest(x: float, format: Format) -> float:
    """Round a number by fractions, as if exponents went on."""
    if x == 0.0:
        return x
    scale = math.frexp(x)[1] - format.precision
    last = Fraction(2) ** max(scale, format.least_exponent)
    return float(round(Fraction(x) / last) * last)


def ties(seed: int, count: int = 400) -> list[float]:
    return nearly_ties(random.Random(seed), (count,), DTYPES["fp64"].reach)


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp32"])
def test_a_step_names_the_nearest_number(name: str) -> None:
    step = RoundingStep.to(FORMATS[name], "nearest", False)
    for x in (*ties(1), 0.0, 1.0, -math.pi):
        found = step.settled(x)
        assert found is not None
        assert math.ldexp(*found) == nearest(x, FORMATS[name])


def test_only_rounding_to_nearest_settles() -> None:
    third = 1.0 + 3 * 2.0**-9
    assert RoundingStep.to(BF16, "faithful", False).settled(third) is None
    assert RoundingStep.to(BF16, "toward_zero", False).settled(third) is None
    flushing = RoundingStep.to(BF16, "nearest", True)
    assert flushing.settled(BF16.min_normal / 3) is None
    assert math.ldexp(*_known(flushing, third)) == 1.0 + 2.0**-7
    assert flushing.settled(0.0) is not None


def _known(step: RoundingStep, x: float) -> tuple[int, int]:
    found = step.settled(x)
    assert found is not None
    return found


def cast(x: Sequence[float], to: str, contract: Contract | None = None, dtype: str = "fp64") -> Any:
    given = torch.tensor(x, dtype=torch.float64 if dtype == "fp64" else torch.float32)
    return expected_value("cast", [given], {"to": to}, contract or RULE("cast", dtype))


@pytest.mark.parametrize("to", ["bf16", "fp16"])
def test_a_cast_allows_one_number(to: str) -> None:
    x = [1.0 + 2.0**-8 + 2.0**-40, 1.0 + 2.0**-11 + 2.0**-40, 1.0 + 2.0**-8, 0.1]
    right = torch.tensor([nearest(one, FORMATS[to]) for one in x]).to(NARROW[to])
    expected = cast(x, to)
    assert judge_tensor(right, expected).fraction == 0
    assert judge_recorded(right, record(expected)).fraction == 0
    for k in range(len(x)):
        wrong = right.clone()
        wrong[k] = torch.nextafter(right[k], torch.tensor(math.inf, dtype=NARROW[to]))
        assert judge_tensor(wrong, expected).fraction == math.inf
        assert judge_recorded(wrong, record(expected)).fraction == math.inf
    twice = torch.tensor(x, dtype=torch.float64).float().to(NARROW[to])
    assert judge_tensor(twice, expected).fraction == math.inf


def test_where_a_format_ends_one_side_is_right() -> None:
    below, above = cast([65519.9999, 65520.0], "fp16").data
    assert fraction_of(65504.0, below) == 0 and fraction_of(math.inf, below) == math.inf
    assert fraction_of(math.inf, above) == 0 and fraction_of(65504.0, above) == math.inf


def test_the_freedom_of_a_contract_stays() -> None:
    x = 1.0 + 3 * 2.0**-9
    faithful = replace(RULE("cast", "fp32"), casts={"bf16": ("faithful", "none")})
    (either,) = cast([x], "bf16", faithful, "fp32").data
    truncated = replace(RULE("cast", "fp32"), casts={"bf16": ("toward_zero", "none")})
    (down,) = cast([x], "bf16", truncated, "fp32").data
    (near,) = cast([x], "bf16", dtype="fp32").data
    lower, upper = 1.0, 1.0 + 2.0**-7
    assert (fraction_of(lower, either) or 0) <= 1 and (fraction_of(upper, either) or 0) <= 1
    assert (fraction_of(lower, down) or 0) <= 1, "as before"
    assert fraction_of(lower, near) == math.inf and fraction_of(upper, near) == 0
    flushed = replace(RULE("cast", "fp32"), casts={"fp16": ("nearest", "outputs")})
    (small,) = cast([2.0**-20 * 1.3], "fp16", flushed, "fp32").data
    assert (fraction_of(0.0, small) or 0) <= 1


def test_a_product_that_computation_holds_is_rounded_once() -> None:
    contract = Contract("bf16", FP32, BF16)
    x, y = exact(Arithmetic(contract), 1.0 + 2.0**-7, 1.0 + 3 * 2.0**-7)
    product = stored(x * y)
    right = nearest((1.0 + 2.0**-7) * (1.0 + 3 * 2.0**-7), BF16)
    assert fraction_of(right, product) == 0
    assert fraction_of(right + 2.0**-7, product) == math.inf
    third = stored(scalar.divide(y, 3))
    assert third.ball.rad() > 0, "a quotient that was rounded before is rounded twice"


def test_another_program_that_rounds_twice_counts() -> None:
    arithmetic = Arithmetic(Contract("bf16", FP32, BF16))
    (x,) = exact(arithmetic, 1.0 + 2.0**-8)
    once, twice = stored(x), stored((x + 1) - 1)
    assert hull(once, once).ball == once.ball
    both = hull(once, twice)
    assert (fraction_of(1.0, both) or 0) <= 1
    assert (fraction_of(1.0 + 2.0**-7, both) or 0) <= 1


def test_a_form_of_several_steps_is_allowed_beside_the_page() -> None:
    def doubled(x: Any, *, to: str) -> Any:
        del to
        return x.map(lambda entry: scalar.divide(entry * 3, 3))

    contract = replace(RULE("cast", "fp32"), forms=(Form("3 x / 3", doubled),))
    (found,) = cast([1.0 + 2.0**-8], "bf16", contract, "fp32").data
    assert (fraction_of(1.0, found) or 0) <= 1
    assert (fraction_of(1.0 + 2.0**-7, found) or 0) <= 1


@pytest.mark.parametrize("to", ["bf16", "fp16", "fp32"])
def test_large_results_are_held_to_the_same_number(to: str) -> None:
    x = ties(2)
    call = Call("cast", [np.array(x)], {"to": to})
    (found,) = allowed(call, RULE("cast", "fp64"))
    assert found is not None
    due = [nearest(one, FORMATS[to]) for one in x]
    held = np.abs(due) <= FORMATS[to].max_finite
    assert np.array_equal(found.v[held], np.array(due)[held])
    assert np.all(found.b[held] == 0) and np.all(np.isnan(found.b[~held]))
    if to != "fp32":
        twice = torch.tensor(x, dtype=torch.float64).float().to(NARROW[to])
        assert judge_arrays(twice, found).fraction == math.inf


def test_what_may_be_flushed_is_open_in_large_results() -> None:
    contract = replace(RULE("cast", "fp32"), casts={"fp16": ("nearest", "outputs")})
    call = Call("cast", [np.array([2.0**-20 * 1.3, 1.1, 0.0])], {"to": "fp16"})
    (found,) = allowed(call, contract)
    assert found is not None
    assert found.b[0] > 2.0**-20 and found.b[1] == found.b[2] == 0


def test_as_many_ties_as_there_are_kinds_have_all_of_them() -> None:
    """Numbers of fp64 lie on both sides of ties of three formats, in three places of each."""
    x = ties(3, 3 * 33)
    assert len(BEYOND) * len(TIES) * 3 <= len(x)
    for name in ("bf16", "fp16", "fp32"):
        top = (2.0 - FORMATS[name].unit) * 2.0 ** FORMATS[name].max_exponent
        assert {np.sign(abs(one) - top) for one in x if abs(abs(one) / top - 1) < 1e-3} == {
            -1,
            0,
            1,
        }
    assert FP64.precision - max(BEYOND) > 1, "each is a number of fp64"
    small = [one for one in x if 0 < abs(one) < FP16.min_normal]
    assert any(one % 2.0**-25 == 0 for one in small) and any(one % 2.0**-25 for one in small)
    assert any(abs(one) < FP32.min_normal for one in small)


@pytest.mark.parametrize("to", ["fp16", "bf16"])
def test_what_underflows_keeps_its_sign(to: str) -> None:
    least = DTYPES[to].reach.least
    x = torch.tensor([-least / 4, least / 4, -0.0, -least], dtype=torch.float64)
    expected = expected_value("cast", [x], {"to": to}, RULE("cast", "fp64"))
    right = x.to(NARROW[to])
    assert not judge_tensor(right, expected).failed
    other = right.clone()
    other[0] = 0.0
    outcome = judge_tensor(other, expected)
    assert outcome.failed and outcome.detail is not None
    assert (outcome.detail.got, outcome.detail.exact) == ("0.0", "-0")
    other = right.clone()
    other[1] = -0.0
    assert judge_tensor(other, expected).failed
