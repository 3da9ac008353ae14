"""Powers that no float holds: beyond 2^53 every float is even, and one less is odd."""

from __future__ import annotations

import pytest
import torch

import fast
from fast.ops.clamp import check as check_clamp
from fast.ops.pow import check as check_pow
from spec.ops import OPS
from spec.tensor import tensor


@pytest.mark.parametrize("c", [2.0**53 + 2, -(2.0**53), 2.0**60, 2.0**53, 3.0, 0.3 + 1.7])
def test_the_gradient_of_an_even_power_has_the_sign_of_its_base(c: float) -> None:
    given = [-1.0, 1.0, 2.0, -2.0]
    x = torch.tensor(given, dtype=torch.float64)
    op = fast.ops.OPS["pow"]
    _, saved = op.aten_value(x, c=c)
    (found,) = op.aten_vjp(saved, torch.ones_like(x), (True,))
    (due,) = OPS["pow"].vjp((tensor(given),), tensor([1.0] * 4), c=c)
    assert [*map(float, torch.as_tensor(found).sign())] == [(n > 0) - (n < 0) for n in due.data]


@pytest.mark.parametrize(("lo", "hi"), [(None, 1.0), ("0", 1.0), (True, 2.0)])
def test_bounds_that_are_no_numbers_are_refused(lo: object, hi: float) -> None:
    with pytest.raises(fast.Rejected, match="clamp C1: lo and hi are numbers"):
        check_clamp(torch.ones(1), lo=lo, hi=hi)  # type: ignore[arg-type]


@pytest.mark.parametrize("c", ["2", None, float("inf"), float("nan")])
def test_a_power_that_is_no_finite_number_is_refused(c: object) -> None:
    with pytest.raises(fast.Rejected, match="pow C1: c is finite; got"):
        check_pow(torch.ones(1), c=c)  # type: ignore[arg-type]


def test_bounds_that_leave_nothing_are_refused() -> None:
    inf = float("inf")
    for lo, hi in ((inf, inf), (-inf, -inf)):
        with pytest.raises(fast.Rejected, match="lo < inf and hi > -inf"):
            check_clamp(torch.ones(1), lo=lo, hi=hi)
