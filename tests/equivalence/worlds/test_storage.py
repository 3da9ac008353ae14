"""What passes through storage on the way keeps the exact value that a page chooses by."""

from __future__ import annotations

import pytest

from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import exact
from equivalence.worlds.contract import FP16, FP32, Contract
from equivalence.worlds.special_values import last
from equivalence.worlds.special_values.sets import Line
from equivalence.worlds.special_values.steps import lifted
from equivalence.worlds.storage import saved
from spec.ops import OPS
from spec.tensor import tensor

CONTRACT = Contract("half", FP32, FP16, freedom="page")
TINY = 2.0**-30
"""A number that fp16 stores as 0."""


@pytest.mark.parametrize("sign", [1, -1])
def test_a_rate_beyond_a_kink_is_that_of_the_exact_number(sign: int) -> None:
    x, g = exact(Arithmetic(CONTRACT), sign * TINY, 3.0)
    (rate,) = OPS["relu"].vjp((tensor([x]).map(saved),), tensor([g]))
    (found,) = rate.data
    assert found.v == (3 if sign > 0 else 0)
    assert found.w.contains(0) and found.w.contains(found.v)


def test_neither_rate_is_ruled_out_where_infinities_are_told() -> None:
    x, g = lifted(Line(CONTRACT), TINY, 3.0)
    (rate,) = OPS["relu"].vjp((tensor([x]).map(saved),), tensor([g]))
    found = last.stored(rate.data[0])
    number = getattr(found, "finite", found)
    assert number.w.contains(3) and number.w.contains(0)


def test_what_fits_storage_stays_exact() -> None:
    (x,) = exact(Arithmetic(CONTRACT), 0.375)
    assert saved(x).exact
