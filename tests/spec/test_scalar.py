"""Open functions and the worlds that need no library: floats, fractions, duals over them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equivalence.worlds.opaque import opaque
from spec import scalar
from spec.dual import Dual
from spec.formats import BINARY32
from spec.ops import OPS
from spec.rounded import Rounded
from spec.scalar import (
    OpenFunction,
    Unary,
    dot_over,
    equal,
    max_over,
    maximum,
    select,
    sum_over,
)
from spec.tensor import tensor

FLOATS = st.floats()
STOOD_IN = (scalar.exp, scalar.log, scalar.tanh, scalar.sqrt, scalar.cos, scalar.sin)
HALF = Fraction(1, 2)


def bits(x: Any) -> tuple[float, float] | str:
    """Return what two equal floats share: the number and its sign, or that it is none."""
    return "nan" if math.isnan(x) else (float(x), math.copysign(1.0, x))


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Let numpy make infinities and NaN without a warning."""
    with np.errstate(all="ignore"):
        yield


@settings(max_examples=200)
@given(x=FLOATS, y=FLOATS)
@example(1.0, -0.0)
@example(-1.0, 0.0)
@example(0.0, -0.0)
@example(math.inf, -0.0)
@example(math.nan, 0.0)
def test_float_division_is_ieee(x: float, y: float) -> None:
    assert bits(scalar.divide(x, y)) == bits(np.float64(x) / np.float64(y))
    # Which of two zeros is the larger is nobody's business: 0.0 stands for both.
    assert bits(scalar.maximum(x, y) + 0.0) == bits(np.maximum(x, y) + 0.0)
    assert scalar.less(x, y) == (x < y)
    assert scalar.equal(x, y) == (x == y)


@settings(max_examples=100)
@given(x=FLOATS)
@example(-0.0)
@example(-math.inf)
@example(710.0)
def test_float_functions_are_total(x: float) -> None:
    assert bits(scalar.sqrt(x)) == bits(np.sqrt(np.float64(x)))
    assert math.isinf(scalar.exp(x)) == bool(np.isinf(np.exp(np.float64(x))))
    assert math.isnan(scalar.log(x)) == bool(np.isnan(np.log(np.float64(x))))
    assert scalar.is_nan(x) == math.isnan(x)
    assert scalar.is_zero(x) == (x == 0)
    assert bits(scalar.absolute(x)) == bits(abs(x))


def test_floats_at_poles_and_limits() -> None:
    assert (scalar.log(0.0), scalar.log(-0.0), scalar.log(math.inf)) == (
        -math.inf,
        -math.inf,
        math.inf,
    )
    assert (scalar.exp(-math.inf), scalar.tanh(math.inf)) == (0.0, 1.0)
    assert math.isnan(scalar.log(-1.0)) and math.isnan(scalar.sqrt(-1.0))
    assert (scalar.cos(0.0), scalar.sin(0.0), scalar.pi_like(2.0)) == (1.0, 0.0, math.pi)
    for far in (math.inf, -math.inf, math.nan):
        assert math.isnan(scalar.cos(far)) and math.isnan(scalar.sin(far))


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (scalar.exp, 1),
        (scalar.log, 2),
        (scalar.tanh, 1),
        (scalar.sqrt, 2),
        (scalar.sqrt, -1),
        (scalar.cos, 1),
        (scalar.sin, 1),
        (scalar.pi_like, 0),
    ],
)
def test_the_exact_world_refuses_what_is_no_fraction(function: Any, argument: int) -> None:
    for x in (Fraction(argument), argument):
        with pytest.raises(ArithmeticError, match=r"is no fraction, and ints .* Write "):
            function(x)


def test_the_exact_world_knows_what_is_a_fraction() -> None:
    assert (scalar.exp(0), scalar.log(1), scalar.tanh(Fraction(0))) == (1, 0, 0)
    assert (scalar.cos(0), scalar.sin(Fraction(0))) == (1, 0)
    assert scalar.sqrt(Fraction(9, 4)) == Fraction(3, 2)
    assert scalar.divide(1, 3) == Fraction(1, 3)


def test_constants_take_the_world_of_the_other_operand() -> None:
    assert math.isinf(scalar.divide(1, 0.0))
    assert scalar.less(0, 1.0) and scalar.less(-1.0, 0)
    assert scalar.maximum(HALF, 0.25) == 0.5
    with pytest.raises(ZeroDivisionError):
        scalar.divide(1, Fraction(0))


def test_lift_enters_a_constant_into_a_world() -> None:
    assert scalar.lift(2.0, Fraction(1, 3)) == 1 / 3
    assert scalar.lift(Fraction(2), Fraction(1, 3)) == Fraction(1, 3)
    assert scalar.lift(Dual(2.0, 5.0), HALF) == Dual(0.5, 0.0)


def test_an_unknown_world_is_named_with_the_remedy() -> None:
    with pytest.raises(TypeError, match=r"exp has no rule for scalars of type str; it knows .*Dua"):
        scalar.exp("x")
    with pytest.raises(TypeError, match=r"spec\.scalar\.fresh\.register\(str\)"):
        Unary("fresh")("x")


def test_rules_are_found_along_base_classes_and_can_be_swapped() -> None:
    class SpecialValues(float):
        pass

    function = OpenFunction("twice")
    assert function.replaced(float, lambda x: 2 * x) is None
    assert function.rule_for(SpecialValues)(SpecialValues(3.0)) == 6.0
    before = function.replaced(float, None)
    assert before is not None and before(1.0) == 2.0
    with pytest.raises(TypeError, match="it knows no type"):
        function.rule_for(float)


def test_folds_over_extents() -> None:
    assert sum_over(3, lambda k: Fraction(k)) == 3
    assert sum_over((2, 3), lambda i, j: 10 * i + j) == 36
    assert sum_over((), lambda: 7) == 7
    assert sum_over(0, lambda k: 1.0) == 0
    assert sum_over((2, 0), lambda i, j: 1.0) == 0
    assert dot_over(3, lambda k: k, lambda k: 10**k) == 210
    assert max_over(3, lambda k: -abs(k - 1)) == 0
    assert math.isnan(max_over(3, lambda k: [1.0, math.nan, 2.0][k]))


def test_a_float_sum_runs_from_left_to_right() -> None:
    terms = [2.0**53, 1.0, -(2.0**53), 1.0]
    assert sum_over(4, lambda k: terms[k]) == 1.0


def test_a_fold_belongs_to_its_first_term_that_is_no_constant() -> None:
    terms = [0, Fraction(1, 2), Dual(1.0, 2.0)]
    assert sum_over(3, lambda k: terms[k]) == Dual(1.5, 2.0)
    tied = [2, Dual(2, 3), Dual(2, 6)]
    assert max_over(3, lambda k: tied[k]) == Dual(2, 3), "a constant that ties takes its share"


def test_a_symbolic_extent_asks_its_own_rule() -> None:
    class Size:
        pass

    before = scalar.sum_extent.replaced(Size, lambda extent, term: ("sum", term("k")))
    assert before is None
    try:
        assert sum_over(Size(), lambda k: k + "!") == ("sum", "k!")
        assert sum_over((2, Size()), lambda i, k: [i, k])[:2] == ("sum", [0, "k"])
    finally:
        scalar.sum_extent.replaced(Size, None)
    with pytest.raises(TypeError, match="sum_extent has no rule for scalars of type Size"):
        sum_over(Size(), lambda k: k)


def test_duals_know_kinks_and_ties() -> None:
    def rate(x: Any) -> Any:
        return x.tangent

    assert rate(scalar.absolute(Dual(-2, 3))) == -3
    assert rate(scalar.absolute(Dual(2, 3))) == 3
    assert rate(scalar.absolute(Dual(0, 3))) == 0
    assert scalar.maximum(Dual(1, 3), Dual(2, 5)) == Dual(2, 5)
    assert scalar.maximum(Dual(2, 3), 1) == Dual(2, 3)
    assert scalar.maximum(Dual(2, 3), Dual(2, 5)) == Dual(2, 4)
    assert rate(scalar.maximum(Dual(math.nan, 3.0), Dual(2.0, 5.0))) == 8.0
    assert scalar.max_terms([Dual(2, 3), Dual(2, 6), Dual(2, 0), Dual(1, 9)]) == Dual(2, 3)
    assert rate(scalar.max_terms([Dual(1.0, 4.0), Dual(math.nan, 2.0)])) == 2.0
    assert 3 - Dual(1, 2) == Dual(2, -2)


@settings(max_examples=50)
@given(x=st.fractions(-5, 5, max_denominator=9), rate=st.integers(-3, 3))
def test_duals_turn_cosine_and_sine_into_each_other(x: Fraction, rate: int) -> None:
    with opaque():
        number = Dual(x, Fraction(rate))
        assert scalar.cos(number) == Dual(scalar.cos(x), -scalar.sin(x) * rate)
        assert scalar.sin(number) == Dual(scalar.sin(x), scalar.cos(x) * rate)
        assert scalar.pi_like(number) == Dual(scalar.pi_like(x), Fraction(0))


def test_stand_ins_are_removed_on_leaving_even_by_an_error() -> None:
    rules = [f.rule_for(Fraction) for f in STOOD_IN]
    with pytest.raises(KeyError), opaque():
        assert scalar.exp(Fraction(1)) > 0
        raise KeyError
    assert rules == [f.rule_for(Fraction) for f in STOOD_IN]
    with pytest.raises(ArithmeticError):
        scalar.exp(Fraction(1))


@settings(max_examples=100)
@given(x=st.fractions(-50, 50, max_denominator=7))
def test_stand_ins_keep_what_laws_may_use(x: Fraction) -> None:
    with opaque():
        assert scalar.exp(x) == scalar.exp(x) > 0
        assert -1 < scalar.tanh(x) < 1
        assert scalar.sqrt(x * x) == abs(x)
        assert (scalar.exp(x - x), scalar.log(x - x + 1), scalar.tanh(x - x)) == (1, 0, 0)
        assert (scalar.cos(x - x), scalar.sin(x - x)) == (1, 0)
        assert -1 < scalar.sin(x) < 1 and -1 < scalar.cos(x) <= 1
        if x > 0:
            assert scalar.sqrt(x) > 0
            assert scalar.log(x) == scalar.log(x)
        if x < 0:
            for function in (scalar.log, scalar.sqrt):
                with pytest.raises(ArithmeticError, match="stand-in"):
                    function(x)


def test_stand_ins_take_many_values() -> None:
    with opaque():
        for function in STOOD_IN:
            assert len({function(Fraction(k, 7)) for k in range(1, 101)}) > 40


@pytest.mark.parametrize("constant", [2, Fraction(1, 2), -3])
@pytest.mark.parametrize(
    "x",
    [
        0.25,
        Dual(0.25, 1.0),
        Rounded(BINARY32, Fraction(1, 4)),
        Dual(Dual(1.0, 0.0), Dual(0.0, 1.0)),
    ],
)
def test_a_constant_that_is_chosen_enters_the_world_of_the_other(x: Any, constant: Any) -> None:
    for chosen in (select(True, constant, x), select(False, x, constant)):
        assert type(chosen) is type(x)
        assert equal(chosen, constant)
    assert select(True, x, constant) is x
    high, low = maximum(x, constant), maximum(constant, x)
    assert type(high) is type(low) is type(x)
    assert equal(high, low)


def test_constants_among_themselves_and_what_is_no_number_are_chosen_as_they_are() -> None:
    for one, two in ((1, Fraction(1, 2)), (True, 0.5), (1, "text"), (False, [1])):
        for truth, chosen in ((True, one), (False, two)):
            assert select(truth, one, two) is chosen
    assert maximum(Fraction(10**400), 1.0) == math.inf
    assert math.isnan(maximum(10**400, math.nan))


def test_a_truth_value_in_a_sum_or_product_is_the_exact_constant_0_or_1() -> None:
    """It is no error: a mask times a tensor keeps entries, in every world."""
    mask, x = tensor([True, False]), tensor([2.5, -3.0])
    product = OPS["mul"](mask, x)
    assert (product, [type(a) for a in product.data]) == (tensor([2.5, -0.0]), [float, float])
    assert OPS["mul"].vjp((mask, x), tensor([1.0, 1.0]))[1] == tensor([1.0, 0.0])
