"""Sets of special values: against numpy for every pair, and against every order of a sum."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from equivalence.budgets.judge import fraction_of
from equivalence.worlds.contract import BF16, FP32, FP64, Contract
from equivalence.worlds.special_values.last import (
    LARGE_FORMS,
    LEAVING_FORMS,
    MANY_FORMS,
    ONE_FORM,
    stored,
)
from equivalence.worlds.special_values.questions import Doubt
from equivalence.worlds.special_values.sets import Line, SpecialValues
from equivalence.worlds.special_values.steps import lifted
from equivalence.worlds.steps import FUNCTIONS
from spec import scalar

LINE = Line(Contract("ieee", FP32, FP32))
LARGEST, SMALLEST = FP32.max_finite, FP32.min_normal
SUBNORMAL = 2.0**FP32.least_exponent
SIGNED = (0.0, 1.0, 0.5, 3.0, LARGEST, LARGEST / 2, SMALLEST, SUBNORMAL, math.inf, 2.0**100)
NUMBERS = (*SIGNED, *(-x for x in SIGNED), math.nan)

BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "add": (lambda x, y: x + y, np.add),
    "sub": (lambda x, y: x - y, np.subtract),
    "mul": (lambda x, y: x * y, np.multiply),
    "div": (scalar.divide, np.divide),
    "maximum": (scalar.maximum, np.maximum),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def holds(x: Any, got: Any) -> bool:
    """Whether a result is among those that are allowed, of which there must be a bound."""
    fraction = fraction_of(float(got), stored(x))
    return fraction is not None and fraction <= 1


def test_an_infinite_product_may_be_nan_where_its_finite_factors_underflow_first() -> None:
    """-x / y^2 g at x = -inf: the quotient of g, formed first, is 0."""
    stable = Line(Contract("stable", FP32, FP32, freedom="stable"))
    page = Line(Contract("page", FP32, FP32, freedom="page"))
    for line, open_ in ((stable, True), (page, False)):
        infinite, five, little = lifted(line, -math.inf, 5.0, SUBNORMAL)
        quotient = scalar.divide(infinite, five)
        assert holds(quotient * little, -math.inf) and not holds(quotient * little, math.inf)
        assert holds(quotient * little, math.nan) is open_
        # Alone with an infinity, or beside what makes it no smaller, a number is not 0.
        assert not holds(infinite * little, math.nan)
        assert not holds(infinite * little * five, math.nan)
        pole = scalar.divide(lifted(line, 2.0**-100)[0], line.special(0))
        assert holds(pole * little, math.nan) is open_
        assert not holds(pole, math.nan)


@pytest.mark.parametrize("name", BINARY)
def test_single_steps_are_those_of_ieee(name: str) -> None:
    ours, theirs = BINARY[name]
    for a, b in itertools.product(NUMBERS, NUMBERS):
        found, due = ours(*lifted(LINE, a, b)), theirs(np.float32(a), np.float32(b))
        assert holds(found, due), (a, b)
        # Of a zero divisor the sign is not kept; all else has one result.
        wrong = {math.nan, math.inf, -math.inf} if b or name != "div" else {math.nan}
        for other in () if math.isnan(due) else wrong - {float(due)}:
            assert not holds(found, other), (a, b, other)
        if not math.isfinite(due):
            assert not holds(found, 0.0) and not holds(found, math.copysign(LARGEST, due))


@pytest.mark.parametrize("name", [*FUNCTIONS, "square"])
def test_functions_have_their_limits(name: str) -> None:
    for a in NUMBERS:
        due = np.float32(getattr(scalar, name)(float(a)))
        assert holds(getattr(scalar, name)(*lifted(LINE, a)), due), a


def test_questions_are_answered_by_ieee() -> None:
    for a, b in itertools.product(NUMBERS, NUMBERS):
        x, y = lifted(LINE, a, b)
        assert bool(scalar.less(x, y)) is (a < b) and bool(scalar.equal(x, y)) is (a == b)
    for a in NUMBERS:
        (x,) = lifted(LINE, a)
        assert bool(scalar.equal(x, x)) is (a == a) and not scalar.less(x, x)
        assert scalar.is_zero(x) is (a == 0) and scalar.is_nan(x) is math.isnan(a)


def test_an_open_question_takes_both_branches() -> None:
    large, infinite = lifted(LINE, LARGEST, math.inf)
    maybe = scalar.equal(large + large, infinite)
    assert isinstance(maybe, Doubt)
    with pytest.raises(TypeError, match="read it with"):
        bool(maybe)
    found = scalar.select(maybe, large, infinite)
    assert holds(found, LARGEST) and holds(found, math.inf) and not holds(found, math.nan)


def test_a_branch_that_is_not_chosen_is_no_part() -> None:
    one, lost = lifted(LINE, 1.0, math.nan)
    found = scalar.select(scalar.less(one, 2), one, lost)
    assert holds(found, 1.0) and not holds(found, math.nan)


def _sums(terms: list[Any], kind: Any) -> set[float]:
    """Add numbers in every order, as numpy does."""
    return {
        float(np.float32(kind(sum(order[1:], start=order[0]))))
        for order in itertools.permutations(terms)
    }


@pytest.mark.parametrize("seed", range(4))
def test_sums_and_products_hold_what_every_order_gives(seed: int) -> None:
    rng = random.Random(seed)
    choices = (*NUMBERS, 0.6 * LARGEST, -0.6 * LARGEST, 0.3 * LARGEST)
    for _ in range(300):
        a = [float(np.float32(rng.choice(choices))) for _ in range(rng.randint(1, 4))]
        b = [float(np.float32(rng.choice(choices))) for _ in a]
        total = scalar.sum_terms(lifted(LINE, *a))
        product = scalar.dot_terms(lifted(LINE, *a), lifted(LINE, *b))
        for kind in (np.float32, np.float64):
            terms = [kind(x) for x in a]
            for got in _sums(terms, kind):
                assert fraction_of(got, stored(total)) in (None, 0.0) or holds(total, got), a
            products = [kind(x) * kind(y) for x, y in zip(a, b, strict=True)]
            for got in _sums(products, kind):
                assert fraction_of(got, stored(product)) in (None, 0.0) or holds(product, got)


def test_a_sum_is_no_wider_than_it_must_be() -> None:
    cases = (
        ([math.nan, 1.0, math.inf], math.nan),
        ([math.inf, 1.0, 2.0], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([LARGEST, LARGEST, 1.0], math.inf),
        ([-LARGEST, -LARGEST], -math.inf),
    )
    for terms, due in cases:
        found = stored(scalar.sum_terms(lifted(LINE, *terms)))
        assert isinstance(found, SpecialValues) and found.finite is None
        assert fraction_of(due, found) == 0.0
        others = [x for x in (math.nan, math.inf, -math.inf) if x != due and due == due]
        assert all(fraction_of(x, found) == math.inf for x in others)


def test_a_result_that_fits_after_all_may_be_finite() -> None:
    """A mean may be formed from shares, or in a wider format."""
    large = lifted(LINE, LARGEST, LARGEST)
    mean = scalar.divide(scalar.sum_terms(large), 2)
    assert holds(mean, LARGEST) and holds(mean, math.inf)
    assert not holds(mean, math.nan) and not holds(mean, LARGEST / 2)


def test_storing_overflows_at_the_end_of_the_narrow_format() -> None:
    line = Line(Contract("bf16", FP32, BF16))
    (x,) = lifted(line, LARGEST)
    assert fraction_of(math.inf, stored(x)) == 0.0
    wide = Line(Contract("fp64", FP64, FP64))
    (y,) = lifted(wide, FP64.max_finite)
    assert fraction_of(math.inf, stored(y * 4)) == 0.0
    assert fraction_of(0.0, stored(y * 4)) == math.inf


def test_flushed_operands_may_be_zero() -> None:
    line = Line(Contract("flushed", FP32, FP32, flush="inputs_outputs"))
    infinite, tiny, one = lifted(line, math.inf, SUBNORMAL, 1.0)
    assert holds_any(infinite * tiny, math.inf, math.nan)
    assert holds_any(scalar.divide(one, tiny), math.inf)
    assert not holds(infinite * one, math.nan)
    assert isinstance(scalar.is_zero(tiny), Doubt)
    assert scalar.is_zero(one) is False and scalar.is_zero(one * 0) is True


def holds_any(x: Any, *results: float) -> bool:
    """Whether results are allowed, with a bound or without one."""
    return all(fraction_of(got, stored(x)) in (None, 0.0) for got in results)


def test_of_many_forms_only_that_a_result_is_not_finite_is_told() -> None:
    infinite, lost, one = lifted(LINE, math.inf, math.nan, 1.0)
    for x in (infinite, infinite - infinite):
        free = stored(x, MANY_FORMS)
        assert all(fraction_of(got, free) == 0.0 for got in (math.nan, math.inf, -math.inf))
        assert fraction_of(1.0, free) == math.inf
    assert fraction_of(math.inf, stored(lost + one, MANY_FORMS)) == math.inf
    assert fraction_of(math.inf, stored(one, MANY_FORMS)) == math.inf
    assert fraction_of(math.inf, stored(one, LARGE_FORMS)) == 0.0
    assert fraction_of(2.0, stored(one, LARGE_FORMS)) == math.inf
    assert fraction_of(math.nan, stored(one, LEAVING_FORMS)) == 0.0
    assert fraction_of(1.0, stored(infinite, LEAVING_FORMS)) == math.inf
    assert fraction_of(math.inf, stored(lost + one, LEAVING_FORMS)) == math.inf
    assert fraction_of(math.inf, stored(infinite - infinite, ONE_FORM)) == math.inf


def test_strangers_are_refused() -> None:
    (one,) = lifted(LINE, 1.0)
    with pytest.raises(TypeError, match="A float enters through"):
        one + 0.5
