"""Numbers of the exact ring: their degrees, what is no number, residues, and what a float means."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import pytest
import torch

from equivalence.exact.literals import meant
from equivalence.exact.memory import Memory
from equivalence.exact.numbers import MINUS, NAN, PLUS, Number, drawn, over, traced
from equivalence.exact.residues import GENERATOR, PRIME, Residue, power
from equivalence.exact.standins import homomorphic, opaque, stood_in
from spec import scalar


def test_degrees_bound_those_of_the_quotient() -> None:
    x, y = drawn(3), drawn(5)
    total = 1 / x + 1 / y
    assert (total.value, total.top, total.bottom) == (Fraction(8, 15), 1, 2)
    square = total * total - Fraction(1, 2)
    assert (square.top, square.bottom) == (4, 4)
    assert x * 0 == 0 and type(x * 0) is int and (1 * x) is x


def test_an_order_is_noted_and_one_of_computed_numbers_too() -> None:
    with traced() as trace:
        assert drawn(3) < drawn(5) and -drawn(3) < 0 and drawn(3) != drawn(4)
        assert trace.ordered and not trace.decided
        assert drawn(3) * drawn(5) > 1
        assert trace.decided


def test_what_is_beyond_numbers_goes_on_as_in_ieee() -> None:
    x = drawn(7)
    assert x + PLUS == PLUS and MINUS * x == MINUS and x / PLUS == 0
    assert MINUS < x < PLUS and x > MINUS
    assert over(x, 0) == PLUS and over(-x, 0) == MINUS
    for nan in (PLUS - PLUS, PLUS * 0, over(0, 0), NAN + x):
        assert nan != nan


@pytest.mark.parametrize("whole", [Fraction(1, 3), Fraction(7, 11), Fraction(1, 2**24)])
def test_a_float_means_the_fraction_that_it_was(whole: Fraction) -> None:
    single = torch.tensor(float(whole), dtype=torch.float32).item()
    assert meant(float(whole)) == meant(single) == whole
    assert meant(-float(whole)) == -whole
    if whole.denominator < 2**20:
        assert meant(1 - float(whole)) == 1 - whole


def test_the_generator_generates_all_residues_but_zero() -> None:
    factors = {2: 1, 3: 3, 7: 2, 19: 1, 43: 1, 73: 1, 127: 1, 337: 1, 5419: 1, 92737: 1,
               649657: 1, 77158673929: 1}  # fmt: skip
    assert prod(f**n for f, n in factors.items()) == PRIME - 1
    assert all(pow(GENERATOR, (PRIME - 1) // factor, PRIME) != 1 for factor in factors)


def test_the_homomorphism_turns_sums_into_products() -> None:
    x, y, m = drawn(12345), drawn(-678), drawn(10**40)
    assert homomorphic(x - m) * homomorphic(m - y) == homomorphic(x - y)
    assert homomorphic(x - x + 0) == 1
    assert Residue(3) + Fraction(1, 2) == Residue(7) / 2 and power(5) * power(-5) == 1
    with pytest.raises(TypeError, match="sums of drawn integers"):
        homomorphic(x * y)
    with pytest.raises(TypeError, match="has no order"):
        assert homomorphic(x) < 1


def test_a_stand_in_is_a_function_of_many_values() -> None:
    log = opaque("log")
    values = {log(drawn(k)).value for k in range(2, 1002)}
    assert len(values) == 1000 and max(values) > 2**90 and min(values) > 0
    assert log(drawn(7)) == log(7) and log(Fraction(1, 7)) < 0 and log(1) == 0


def test_stand_ins_are_restored() -> None:
    before = dict(scalar.exp.rules), dict(scalar.less.rules)
    with stood_in():
        assert isinstance(scalar.exp(Fraction(5)), Number)
    assert (dict(scalar.exp.rules), dict(scalar.less.rules)) == before


def test_memory_holds_numbers_through_views_and_copies() -> None:
    memory, z = Memory(), torch.full((2, 3), torch.nan)
    numbers = [drawn(2**70 + k) for k in range(4)] + [5, Fraction(-1, 3)]
    memory.write(z, numbers)
    assert memory.read(z) == numbers
    assert memory.read(z.t().contiguous()) == [numbers[k] for k in (0, 3, 1, 4, 2, 5)]
    (unwritten,) = memory.read(torch.tensor([torch.nan]))
    assert unwritten != unwritten
    with pytest.raises(TypeError, match="holds exact numbers"):
        memory.write(z, [0.5] * 6)
