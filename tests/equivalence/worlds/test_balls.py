"""Certified balls: what they answer is certain, and what they cannot answer they do not."""

from __future__ import annotations

from fractions import Fraction

import flint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equivalence.worlds.balls import UNKNOWN, Ball, ball
from spec import scalar
from spec.ops import OPS
from spec.tensor import Tensor, tabulate

RADIUS = flint.arb(2) ** -100
"""How thin a certified result must be."""

fractions = st.fractions(-9, 9, max_denominator=64)


def third() -> Ball:
    """Return a ball that is not exact."""
    return scalar.divide(ball(1), 3)


def test_constants_are_exact_where_they_are_dyadic() -> None:
    assert ball(Fraction(5, 8)).arb.is_exact() and ball(0.1).arb.is_exact()
    assert not ball(Fraction(1, 3)).arb.is_exact()
    assert scalar.lift(third(), Fraction(3, 4)).arb == 0.75


@given(fractions, fractions)
def test_balls_hold_exact_arithmetic(a: Fraction, b: Fraction) -> None:
    x, y = ball(a), ball(b)
    for got, true in ((x + y, a + b), (x - y, a - b), (x * y, a * b), (2 - x * b, 2 - a * b)):
        assert holds(got, true)
    assert not b or holds(scalar.divide(x, y), a / b)
    assert holds(scalar.maximum(x, y), max(a, b))
    assert holds(scalar.square(x), a * a)
    assert holds(scalar.absolute(-x), abs(a))


@given(fractions)
def test_balls_hold_cosine_sine_and_pi(a: Fraction) -> None:
    cosine, sine = scalar.cos(ball(a)), scalar.sin(ball(a))
    assert holds(scalar.square(cosine) + scalar.square(sine), Fraction(1))
    assert holds(scalar.sin(scalar.pi_like(ball(a)) * a.numerator), Fraction(0))
    assert cosine.arb.rad() < RADIUS and scalar.pi_like(ball(a)).arb.rad() < RADIUS


def holds(x: Ball, number: Fraction) -> bool:
    """Whether a ball holds a fraction; asked of integers, which balls have exactly."""
    return bool((x.arb * number.denominator).contains(number.numerator))


def test_comparisons_are_certain_or_unknown() -> None:
    assert scalar.less(ball(1), ball(2)) is True
    assert scalar.less(ball(2), 1) is False
    assert scalar.less(third() * 3, 1) is UNKNOWN
    assert scalar.equal(ball(2), 2) is True
    assert scalar.equal(third(), ball(1)) is False
    assert scalar.equal(third(), third()) is UNKNOWN
    assert scalar.is_zero(ball(0)) and not scalar.is_zero(third() - third())
    with pytest.raises(TypeError, match="select"):
        bool(UNKNOWN)


def test_select_on_unknown_is_the_hull() -> None:
    hull = scalar.select(scalar.less(third() * 3, 1), ball(5), 7)
    assert hull.arb.contains(5) and hull.arb.contains(7)


def test_a_square_around_zero_is_not_negative() -> None:
    width = Ball(flint.arb(0, 1))
    squared = scalar.square(width).arb
    assert squared.contains(0) and squared.contains(1)
    assert squared.lower() > -(flint.arb(2) ** -28)  # radii have 30 bits


def test_a_float_must_say_what_it_is() -> None:
    with pytest.raises(TypeError, match="exact number"):
        third() + 0.5


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "cross_entropy"])
def test_pages_run_on_balls_and_stay_thin(name: str) -> None:
    x = tabulate((2, 4), lambda i, j: ball(Fraction(3 * i - j * j, 4)))
    row = tabulate((4,), lambda j: ball(Fraction(j + 1, 3)))
    more = {"layer_norm": (row, row), "cross_entropy": (Tensor((2,), (3, 0)),)}.get(name, ())
    page = OPS[name]
    value = page.value(x, *more)
    gradients = page.vjp((x, *more), value)
    for entry in (*value.data, *gradients[0].data):
        assert entry.arb.rad() < RADIUS
    if name == "softmax":
        assert sum(entry.arb for entry in value.data).contains(2)
