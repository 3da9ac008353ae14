"""The rounded formats, bit for bit: NaN equals NaN and the zeros differ by their sign.

binary32 is laid beside this machine's own float32; binary16 and bfloat16 beside a table of all
their numbers, in which the nearest is looked up; the curves beside balls of 400 bits.
"""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spec import scalar
from spec.formats import pi
from spec.rounded import BF16, BINARY32, FP16, Format, Rounded

SINGLES = st.floats(width=32)
TINY, HUGE = 2.0**-149, 2.0**128 - 2.0**104
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda x, y: scalar.divide(x, y) if isinstance(x, Rounded) else x / y,
}


def bits(x: Any) -> tuple[float, float] | str:
    """Return what two equal results share: the number and its sign, or that it is none."""
    plain = float(x)
    return "nan" if math.isnan(plain) else (plain, math.copysign(1.0, plain))


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Let numpy make infinities and NaN without a warning."""
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", ARITHMETIC)
@settings(max_examples=300)
@example(1.0, -0.0)
@example(0.0, -5.0)
@example(-0.0, 5.0)
@example(0.0, -0.0)
@example(-0.0, -0.0)
@example(math.inf, -0.0)
@example(HUGE, HUGE)
@example(HUGE, TINY)
@example(-TINY, 0.5)
@example(TINY, 2.0)
@example(1.0 + 2.0**-23, 1.0 + 2.0**-23)
@example(1.0, 2.0**-24)
@example(1.0 + 2.0**-23, 2.0**-24)
@given(x=SINGLES, y=SINGLES)
def test_binary32_is_the_machines(name: str, x: float, y: float) -> None:
    apply = ARITHMETIC[name]
    got = apply(Rounded(BINARY32, x), Rounded(BINARY32, y))
    assert bits(got) == bits(apply(np.float32(x), np.float32(y)))


@settings(max_examples=300)
@example(-0.0)
@example(TINY)
@example(HUGE)
@example(-1.0)
@given(x=SINGLES)
def test_roots_signs_and_magnitudes_are_the_machines(x: float) -> None:
    number, single = Rounded(BINARY32, x), np.float32(x)
    assert bits(scalar.sqrt(number)) == bits(np.sqrt(single))
    assert bits(scalar.square(number)) == bits(single * single)
    assert bits(scalar.absolute(number)) == bits(np.abs(single))
    assert bits(-number) == bits(-single)
    assert scalar.is_zero(number) == (single == 0)
    assert scalar.is_nan(number) == np.isnan(single)


@settings(max_examples=200)
@example(0.0, -0.0)
@example(math.nan, 1.0)
@given(x=SINGLES, y=SINGLES)
def test_comparisons_are_the_machines(x: float, y: float) -> None:
    left, right = Rounded(BINARY32, x), Rounded(BINARY32, y)
    assert scalar.less(left, right) == (np.float32(x) < np.float32(y))
    assert scalar.equal(left, right) == (np.float32(x) == np.float32(y))
    assert float(scalar.maximum(left, right)) == np.maximum(x, y) or math.isnan(np.maximum(x, y))
    assert scalar.is_nan(scalar.maximum(left, right)) == np.isnan(np.maximum(x, y))


@settings(max_examples=300)
@given(x=st.floats())
@example(1.0 + 2.0**-24)
@example(1.0 + 3 * 2.0**-24)
@example(HUGE + 2.0**103)
@example(2.0**-150)
@example(-(2.0**-150))
@example(2.0**-150 + 2.0**-200)
def test_rounding_into_binary32_is_the_machines(x: float) -> None:
    assert bits(Rounded(BINARY32, x)) == bits(np.float32(x))


@cache
def numbers_of(format: Format) -> tuple[list[float], list[bool]]:
    """List the non-negative numbers of a 16-bit format, decoded from their bit patterns.

    Beside each stands whether its last bit is even; the first number beyond the range closes the
    list, so that what rounds to it is an infinity.
    """
    patterns = np.arange(2**15, dtype=np.uint16)
    if format is FP16:
        decoded = patterns.view(np.float16).astype(np.float64)
    else:
        decoded = (patterns.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    finite = [float(x) for x in decoded if np.isfinite(x)]
    beyond = finite[-1] + (finite[-1] - finite[-2])
    return [*finite, beyond], [k % 2 == 0 for k in range(len(finite) + 1)]


def nearest(format: Format, x: Fraction) -> float:
    """Look up the number of a format nearest to an exact one; of two, the even one."""
    numbers, even = numbers_of(format)
    size = abs(x)
    above = bisect.bisect_left(numbers, size)
    if above == len(numbers):
        return math.copysign(math.inf, x)
    below = max(above - 1, 0)
    down, up = size - Fraction(numbers[below]), Fraction(numbers[above]) - size
    chosen = below if down < up or (down == up and even[below]) else above
    found = math.inf if chosen == len(numbers) - 1 else numbers[chosen]
    return math.copysign(found, x)


def half_of(format: Format, pattern: int) -> float:
    """Decode a 16-bit pattern."""
    if format is FP16:
        return float(np.uint16(pattern).view(np.float16))
    return float((np.uint32(pattern) << np.uint32(16)).view(np.float32))


HALVES = pytest.mark.parametrize("format", [BF16, FP16], ids=lambda format: format.name)
PATTERNS = st.integers(0, 2**16 - 1)


@HALVES
@pytest.mark.parametrize("name", ARITHMETIC)
@settings(max_examples=200)
@given(left=PATTERNS, right=PATTERNS)
def test_halves_round_the_exact_result(format: Format, name: str, left: int, right: int) -> None:
    x, y = half_of(format, left), half_of(format, right)
    apply = ARITHMETIC[name]
    got = apply(Rounded(format, x), Rounded(format, y))
    wide = apply(np.float64(x), np.float64(y))
    if not (math.isfinite(x) and math.isfinite(y) and x and y):
        # With a zero, an infinity or NaN, binary64 gives the exact result with its sign.
        assert bits(got) == bits(wide)
        return
    exact = Fraction(x) / Fraction(y) if name == "/" else apply(Fraction(x), Fraction(y))
    assert bits(got) == bits(nearest(format, exact) if exact else 0.0)


@HALVES
@settings(max_examples=200)
@given(pattern=PATTERNS)
def test_halves_round_the_exact_root(format: Format, pattern: int) -> None:
    x = half_of(format, pattern)
    # binary64 keeps more than twice the bits plus two, so rounding its root again is harmless.
    wide = float(np.sqrt(np.float64(x)))
    exact = nearest(format, Fraction(wide)) if math.isfinite(wide) and wide else wide
    assert bits(scalar.sqrt(Rounded(format, x))) == bits(exact)


@HALVES
@settings(max_examples=300)
@given(pattern=st.integers(0, 2**15 - 2), shift=st.integers(-2, 2))
def test_midpoints_go_to_the_even_neighbour(format: Format, pattern: int, shift: int) -> None:
    numbers, _ = numbers_of(format)
    k = pattern % (len(numbers) - 1)
    middle = (Fraction(numbers[k]) + Fraction(numbers[k + 1])) / 2
    x = middle + Fraction(shift, 2**400)
    assert bits(Rounded(format, x)) == bits(nearest(format, x))
    assert bits(Rounded(format, -x)) == bits(nearest(format, -x))


@pytest.mark.parametrize("format", [BINARY32, BF16, FP16], ids=lambda format: format.name)
def test_formats_know_their_constants(format: Format) -> None:
    one = Rounded(format, 1)
    assert one + format.unit_roundoff == one, "half a last place, and one is even"
    assert one + 2 * format.unit_roundoff != one
    smallest = Fraction(2) ** format.smallest_exponent
    assert Rounded(format, smallest).number == smallest
    assert Rounded(format, smallest / 2).number == 0


CURVES = {
    function.name: (function, getattr(flint.arb, function.name))
    for function in (scalar.exp, scalar.log, scalar.tanh, scalar.cos, scalar.sin)
}
FAR = Fraction(2) ** 400


def _endpoint(ball: Any) -> Fraction:
    """Convert an endpoint of a ball exactly, or to a number that every format rounds alike."""
    if ball > float(FAR):
        return FAR
    if abs(ball) < 1 / float(FAR):
        return Fraction(0) if ball == 0 else 1 / FAR if ball > 0 else -1 / FAR
    mantissa, exponent = ball.man_exp()
    return int(mantissa) * Fraction(2) ** int(exponent)


def through_a_ball(format: Format, name: str, x: float) -> float:
    """Round the exact result, by a ball so narrow that both ends round alike."""
    before = flint.ctx.prec
    flint.ctx.prec = 400
    try:
        ball = CURVES[name][1](flint.arb(x))
        ends = {float(format.round(_endpoint(end))) for end in (ball.lower(), ball.upper())}
    finally:
        flint.ctx.prec = before
    (end,) = ends
    return end


@pytest.mark.parametrize("format", [BINARY32, BF16, FP16], ids=lambda format: format.name)
@pytest.mark.parametrize("name", CURVES)
@settings(max_examples=100)
@given(x=st.floats(width=32, allow_nan=False, allow_infinity=False) | st.floats(-20, 20, width=32))
@example(1.0)
@example(TINY)
@example(-TINY)
@example(HUGE)
@example(-HUGE)
@example(3e7)
@example(1.0 + 2.0**-23)
@example(1.0 - 2.0**-24)
@example(88.72283935546875)
@example(-103.97208404541016)
def test_curves_are_correctly_rounded(format: Format, name: str, x: float) -> None:
    number = Rounded(format, x)
    inside = float(number)
    got = CURVES[name][0](number)
    if not math.isfinite(inside) or inside == 0 or (name == "log" and inside < 0):
        assert bits(got) == bits(CURVES[name][0](inside))
        return
    assert float(got) == through_a_ball(format, name, inside)


@pytest.mark.parametrize("format", [BINARY32, BF16, FP16], ids=lambda format: format.name)
def test_pi_is_the_nearest_of_the_format(format: Format) -> None:
    number = float(scalar.pi_like(Rounded(format, 2)))
    assert Fraction(number) == format.round(_endpoint(flint.arb.pi().lower()))
    assert Fraction(number) == format.round(_endpoint(flint.arb.pi().upper()))


@settings(max_examples=100)
@given(bits=st.integers(1, 1200))
def test_pi_is_as_near_as_it_says(bits: int) -> None:
    before = flint.ctx.prec
    flint.ctx.prec = bits + 60
    try:
        found = pi(bits)
        ball = flint.arb(flint.fmpq(found.numerator, found.denominator))
        assert abs(ball - flint.arb.pi()) < flint.arb(2) ** -bits
    finally:
        flint.ctx.prec = before


def test_constants_enter_a_format_before_they_meet_its_numbers() -> None:
    third = Rounded(BF16, Fraction(1, 3))
    assert third + Fraction(1, 3) == third + third
    assert Fraction(1, 3) * third == third * third
    assert 1 - third == Rounded(BF16, 1) - third


def test_numbers_of_two_formats_do_not_mix_silently() -> None:
    with pytest.raises(TypeError, match="fp32 and bf16"):
        Rounded(BINARY32, 1) + Rounded(BF16, 1)
