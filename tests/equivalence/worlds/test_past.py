"""What the past of a number says of other orders of its steps, near the ends of the range."""

from __future__ import annotations

from dataclasses import replace

import flint
import numpy as np
import pytest

from equivalence.budgets.judge import budget_of, fraction_of
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import NAN
from equivalence.worlds.bounded import Bounded, exact, stored
from equivalence.worlds.contract import FP32, MOST_UNITS, Contract, FunctionError, ulps
from equivalence.worlds.number import always_zero
from equivalence.worlds.past import hull, magnitude, never_negative
from equivalence.worlds.stable.gains import gain
from spec import scalar

STABLE = Contract("stable", FP32, FP32)
PAGE = replace(STABLE, freedom="page")


def scalars(*values: float, contract: Contract = STABLE) -> list[Bounded]:
    return exact(Arithmetic(contract), *values)


def quotients(g: float, x: float, y: float, contract: Contract) -> Bounded:
    """Return the gradient of a divisor as the page forms it."""
    given = scalars(g, x, y, contract=contract)
    return stored(-scalar.divide(scalar.divide(given[1], given[2]), given[2]) * given[0])


def test_what_underflows_first_is_made_larger_by_the_factors_that_come_after() -> None:
    g, x, y = 2.0**-149, 1000.1, 2.0
    f32 = np.float32
    lost = float(-(f32(g) / f32(y)) * (f32(x) / f32(y)))
    assert lost == 0.0
    allowed, refused = (fraction_of(lost, quotients(g, x, y, c)) for c in (STABLE, PAGE))
    assert allowed is not None and allowed <= 1
    assert refused is not None and refused > 100


def test_the_gain_is_that_of_all_factors_but_the_two_smallest() -> None:
    small, three, five, half = scalars(1e-30, 3.0, 5.0, 0.5)
    product = small * three * five
    assert gain(product) == 5
    assert gain(product * half) == 15
    assert gain(scalar.divide(product, scalars(0.25)[0])).overlaps(flint.arb(20))
    assert gain(three) == 1 and gain(small * three) == 1
    assert gain(three + product) == 5, "a sum has the worst of its terms"
    assert gain((three + product) * five) == 75, "a term is multiplied by what its sum is"
    assert gain(five * (half * (product + three) - small)) == 75
    assert gain(scalar.divide(three + product, scalars(0.25)[0])).overlaps(flint.arb(60))


def test_terms_of_a_factor_that_is_a_sum_may_underflow() -> None:
    """Of (g w + t) r another program takes g (w r) + t r, and w r may underflow."""
    g, w, r, t = 504.7, 2.0**-149, 1.3, 2.0**-140
    f32 = np.float32
    other = float(f32(g) * (f32(w) * f32(r)) + f32(t) * f32(r))
    found = []
    for contract in (STABLE, PAGE):
        one, two, three, four = scalars(g, w, r, t, contract=contract)
        found.append(fraction_of(other, stored((one * two + four) * three)))
    allowed, refused = found
    assert allowed is not None and allowed <= 1
    assert refused is not None and refused > 1


def test_a_sum_that_is_divided_may_lose_what_each_share_underflows_by() -> None:
    """A mean of 31 tiny numbers, each divided first, and all rounded down by nearly a half."""
    numbers = [(31 * (10 + k) + 15) * 2.0**-149 for k in range(31)]
    shares = np.float32(0)
    for number in numbers:
        shares += np.float32(number) / np.float32(31)
    found = []
    for contract in (STABLE, PAGE):
        terms = scalars(*numbers, contract=contract)
        mean = scalar.divide(scalar.sum_terms(terms), 31)
        assert gain(mean) == 31
        found.append(fraction_of(float(shares), stored(mean)))
    allowed, refused = found
    assert allowed is not None and allowed <= 1
    assert refused is not None and refused > 1
    assert gain(scalars(3.0)[0] * 5) == 1


@pytest.mark.parametrize("below", [True, False])
def test_a_sum_of_quotients_may_be_brought_to_a_common_denominator(below: bool) -> None:
    """X / (y / r + z) as r x / (y + r z), where r x underflows, and (y / r + z) x likewise."""
    f32 = np.float32
    r = float(f32(1e-3))
    x, y, z = (490 * 2.0**-149, 3e-14, 1e-8) if below else (1.7, 2.0**-130, 7.49 * 2.0**-149 / r)
    x, y, z = map(float, map(f32, (x, y, z)))
    bottom = f32(y) + f32(r) * f32(z)
    lost = float(f32(r) * f32(x) / bottom if below else bottom / f32(r) * f32(x))
    found = []
    for contract in (STABLE, PAGE):
        root, top, rest, more = scalars(r, x, y, z, contract=contract)
        total = scalar.divide(rest, root) + more
        found.append(stored(scalar.divide(top, total) if below else total * top))
    allowed, refused = (fraction_of(lost, one) for one in found)
    assert allowed is not None and 0 < allowed <= 1
    assert refused is not None and refused > 1
    due = float(found[0].v.mid())
    wrong = fraction_of(due + 50 * (lost - due), found[0])
    assert wrong is not None and wrong > 1


@pytest.mark.parametrize("x", [0.0, 3.0 * 2.0**-100])
def test_factors_that_may_overflow_in_another_order_leave_a_result_open(x: float) -> None:
    """-x / (y y) is 0 / 0, or infinite, where y y underflows."""
    assert quotients(1.0, x, 2.0**-100, STABLE).unconstrained
    assert not quotients(1.0, x, 2.0**-60, STABLE).unconstrained
    assert not quotients(1.0, x, 2.0**-100, PAGE).unconstrained


def test_two_factors_have_one_order() -> None:
    large, small = scalars(2.0**100, 2.0**-140)
    assert float(budget_of(stored(large * small))) == 0.0


def test_a_mean_of_squares_is_never_negative_and_a_difference_may_be() -> None:
    beta, v, g, third = scalars(0.9, 2.0**-149, 2.0**-80, 1 / 3)
    mean = beta * v + (1 - beta) * scalar.square(g)
    assert never_negative(mean) and not stored(scalar.sqrt(mean)).unconstrained
    rest = scalar.divide(third * 3, 3) - third
    assert not never_negative(rest)


def test_a_function_counts_for_the_units_that_another_one_may_err_by() -> None:
    functions = {
        scalar.tanh.name: ulps(2.0, "test"),
        "exp": FunctionError(2.0**15, source="of storage"),
    }
    (x,) = scalars(0.3, contract=replace(STABLE, functions=functions))
    assert scalar.tanh(x).depth == 4 and scalar.sqrt(x).depth == 1
    assert scalar.exp(x).depth == MOST_UNITS


def test_a_step_that_rounds_nothing_by_chance_counts() -> None:
    for contract, depth in ((STABLE, 4), (PAGE, 3)):
        x, y, two = scalars(1.1, 1.7, 2.0, contract=contract)
        product = x * y * y * y
        assert (product.depth, (product * two).depth) == (3, depth)


def test_the_hull_of_two_programs_holds_what_either_may_give() -> None:
    one, two, three = scalars(1.0, 2.0, 3.0)
    both = hull(one, two)
    assert both.v == 1 and both.w.contains(one.v) and both.w.contains(two.v) and not both.exact
    assert not both.w.contains(three.v)
    assert hull(one, one).exact
    unknown = Bounded(NAN, NAN, one.arithmetic)
    assert hull(one, unknown).unconstrained and not one.unconstrained


def test_a_sum_keeps_its_largest_term_and_stays_a_sum_of_many() -> None:
    """Every entry of a row asks the sum that divides it: its terms are read once in all."""
    terms = scalars(*(0.5 + k for k in range(50)), -80.0)
    total = scalar.sum_over(len(terms), terms.__getitem__)
    assert magnitude(total) == magnitude(total) == magnitude(-total) == 80
    assert len(total.last) < 4

    many = scalars(1.0, -1.0, 0.5, -0.5)
    nothing = scalar.sum_over(len(many), many.__getitem__)
    assert magnitude(nothing) == 1
    assert not always_zero(nothing), "in another order its steps may not cancel"
    assert magnitude(nothing + scalars(2.0)[0]) == 2
