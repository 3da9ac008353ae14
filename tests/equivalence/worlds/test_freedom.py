"""What is promised exactly is held to equality, and what only happens to be exact is not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest

from equivalence.budgets.judge import budget_of, fraction_of
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, exact, magnitude, stored
from equivalence.worlds.contract import BF16, FP32, Contract
from spec import scalar

PAGE = Contract("page", FP32, FP32, freedom="page")
STABLE = Contract("stable", FP32, FP32)
U = FP32.unit


def scalars(*values: float, contract: Contract = PAGE) -> list[Bounded]:
    return exact(Arithmetic(contract), *values)


def test_one_step_is_held_to_its_exact_result_and_two_are_not() -> None:
    three, five = scalars(3.0, 5.0)
    once, twice = three * five, three * five + 1
    assert stored(once).exact and budget_of(stored(once)) == 0
    assert not stored(twice).exact
    assert 16 * U < float(budget_of(stored(twice))) < 3 * 16 * U


def test_moves_count_nothing() -> None:
    three, five = scalars(3.0, 5.0)
    product = three * five
    for moved in (-product, product * 4, scalar.divide(product, 8), product + 0, 0 - product):
        assert (moved.depth, moved.exact) == (1, True)
    chosen = scalar.maximum(product, three)
    assert chosen is product and scalar.absolute(-product).exact
    assert scalar.select(scalar.less(three, five), product, three) is product


@pytest.mark.parametrize("contract", [PAGE, STABLE])
def test_an_input_of_zero_is_as_good_as_any_other_number(contract: Contract) -> None:
    """Beyond its knee, smooth_l1_loss is |x - y| - beta / 2; another program scales by beta."""
    x, zero, c = scalars(999.5, 0.0, 3.0, contract=contract)
    far = scalar.absolute(zero - x)
    assert stored(far).exact and stored(zero + x).exact, "a single step is exact"
    page = far - Fraction(3, 2)
    other = scalar.divide(c * (far - Fraction(3, 2)), 3)
    assert other.depth > page.depth and stored(page).exact is (contract is PAGE)
    moved = scalar.absolute(scalar.zero_like(x) - x) - Fraction(3, 2)
    assert stored(moved).exact, "a 0 of the page is no input"
    assert stored(zero + zero).exact and (zero + zero).depth == 0
    total = scalar.sum_terms([x, c])
    assert (total + zero).depth == total.depth, "a sum is one step"


def test_branches_of_several_steps_share_their_depth() -> None:
    for contract, depth in ((PAGE, 2), (STABLE, 4)):
        x, c = scalars(0.3, 1.7, contract=contract)
        one, two, four = x * c, x * c * c, x * c * c * c * c
        below, beyond = scalar.less(x, c), scalar.less(c, x)
        assert scalar.select(below, two, four).depth == depth
        assert scalar.select(beyond, four, two).depth == depth
        assert scalar.select(below, two, four).v == two.v
        assert scalar.select(below, one, four) is one, "a single step is held to equality"
        constant = scalar.select(below, -1, two)
        assert type(constant) is Bounded, "a constant is taken to the world of the other branch"
        assert scalar.select(below, four, two) is four and scalar.select(below, x, two) is x


@pytest.mark.parametrize("last", [False, True])
def test_a_number_added_to_a_sum_may_have_been_any_of_its_terms(last: bool) -> None:
    """4 - 4 + b is b where b comes last, and loses the bits of b where it comes first."""
    four, minus, bias = scalars(4.0, -4.0, 0.4766000211238861)
    product = scalar.dot_terms([four, minus], scalars(1.0, 1.0))
    total = stored(product + bias if last else bias + product)
    first = fraction_of(4.476600170135498 - 4.0, total)
    assert first is not None and 0 < first <= 1
    assert fraction_of(0.4766000211238861, total) == 0
    wrong = fraction_of(0.4767, total)
    assert wrong is not None and wrong > 1
    minus_bias = stored(product - bias if last else bias - product)
    assert np.float32(float(budget_of(minus_bias))) == np.float32(float(budget_of(total)))


def test_a_sum_of_integers_and_one_more_is_exact() -> None:
    terms = scalars(3.0, -5.0, 7.0)
    total = scalar.sum_terms(terms) + terms[0] - terms[1]
    assert (total.depth, total.exact) == (1, True)


def test_a_sum_that_is_stored_on_its_way_may_be_rounded_there() -> None:
    """Where every step may be stored, a bias that comes last meets a stored sum."""
    contract = replace(PAGE, store=BF16, steps="storage")
    one, small, bias = scalars(1.0, 2.0**-8, -1.0, contract=contract)
    total = scalar.sum_terms([one, small]) + bias
    assert total.w.contains(0) and total.w.contains(flint.arb(2.0**-8))


def test_a_zero_that_a_sum_came_to_is_no_zero_of_another_order() -> None:
    """A mean of 1, -3 and 2 is 0, but not that of their thirds, of which two are rounded."""
    one, other, three, two = scalars(1.0, 1.0, -3.0, 2.0)
    total = scalar.sum_terms([one, three, two])
    third = stored(scalar.divide(total, 3))
    assert total.exact and not third.exact and 5 * U > float(budget_of(third)) > 3 * U
    for zero in (one - other, one - one, scalar.exp(one - other) - 1):
        assert scalar.is_zero(zero) and stored(scalar.divide(zero, 3)).exact


def test_the_largest_term_is_scaled_by_what_follows() -> None:
    three, five = scalars(3.0, 5.0)
    difference = three - five
    assert magnitude(difference) == 5 and magnitude(-difference) == 5
    assert magnitude(difference * three) == 15 and magnitude(difference * 4) == 20
    assert magnitude(scalar.divide(difference, five)).contains(1)
    assert magnitude(scalar.divide(five, difference)).contains(flint.arb(25) / 4)


def test_stable_allows_what_another_order_of_the_same_steps_loses() -> None:
    """C a - c b for c (a - b), which the page alone does not allow."""
    third, a, b = 1 / 3, 1.0000001192092896, 1.0
    for contract, inside in ((PAGE, False), (STABLE, True)):
        c, x, y = scalars(float(flint.arb(third)), a, b, contract=replace(contract, compute=FP32))
        due = stored(c * (x - y))
        lost = flint.arb(third) * (flint.arb(a) - 1) + 2 * U * flint.arb(third)
        fraction = fraction_of(lost, due)
        assert fraction is not None and (fraction <= 1) is inside
    due = stored(scalars(2.0, contract=STABLE)[0] * Fraction(3))
    assert due.exact, "a single step is no sum of others"


@pytest.mark.parametrize("inverse", [False, True])
def test_stable_allows_both_products_of_a_difference_of_one_number_to_be_rounded(
    inverse: bool,
) -> None:
    """Normalizing a row of one entry by a multiply-add takes x r - x r for (x - x) r."""
    for contract, inside in ((PAGE, False), (STABLE, True)):
        x, y = scalars(0.3, 1.7, contract=contract)
        r = scalar.sqrt(y)
        due = stored(scalar.divide(x - x, r) if inverse else (x - x) * r)
        lost = U * 0.3 * (1 / 1.7**0.5 if inverse else 1.7**0.5)
        rows = stored(scalar.sum_terms([(x - x) * r, (x - x) * r]))
        for number in (due, due if inverse else rows):
            allowed, wrong = fraction_of(lost, number), fraction_of(100 * lost, number)
            assert allowed is not None and (allowed <= 1) is inside
            assert wrong is not None and wrong > 1
        assert stored((x - x) * y).exact, "an exact factor is the same in both products"
        assert stored(scalar.exp(x - x)).exact


def test_a_stored_number_keeps_the_ball_of_the_page() -> None:
    c, x, y = scalars(0.3, 1.5, 1.25, contract=STABLE)
    due = stored(c * (x - y))
    assert due.strict is not None and due.w.contains(due.strict)
    assert (due.w - due.v).abs_upper() > (due.strict - due.v).abs_upper()
