"""Elementary functions of fp32 tiles that Triton lacks, and the errors that kernels may quote."""

from __future__ import annotations

import math
from typing import Final

from fast.device.mode import tl, triton

ERRORS: Final = {
    "exp": (4, 0, 1.25),
    "log": (6, 0, 0),
    "tanh": (4, 0, 0),
    "expm1": (4, 0, 0),
    "log1p": (10, 0, 0),
    "erf": (4, 0, 0),
    "cos": (4, 0, 0),
    "sin": (4, 0, 0),
}
"""Declared (relative, absolute, slope): error <= (relative + slope |x|) u |y| + absolute.

exp is `tl.exp`: compiled, a rounded product with log2(e) and ex2.approx; interpreted, numpy's.
log is `tl.log`: compiled, libdevice's logf (1 ulp, also near 1 and for subnormal arguments);
interpreted, numpy's, the looser of the two. tanh is ours and the same, bit for bit, in both.
Over 2^22 arguments per binade range, interpreted, at most 3.6, 4.6 and 3.0 units were seen.
expm1, log1p and erf are ours, too; log1p errs by its logarithm, a quotient and a product, and the
polynomials of erf are fits, whose error was measured: 1.3 units over 2^22 arguments.
cos and sin are ours, too, the same in both, of angles in radians, and of those in turns (`turned`):
over all 2^24 that a random call can draw, at most 2.5 units were seen; of radians, 3.1.
"""

_LOG2_E = tl.constexpr(1 / math.log(2))
# ln 2 in two pieces: a small integer times the first is exact in fp32.
_LN2_HIGH = tl.constexpr(355 / 512)
_LN2_LOW = tl.constexpr(math.log(2) - 355 / 512)
_TWO_PI = tl.constexpr(2 * math.pi)
_EIGHTH = tl.constexpr(math.pi / 4)
_RADIANS = tl.constexpr(math.pi / 2.0**63)
# Digits of 2^-24 / (2 pi): 64 of them from every 32nd on, the first 24 of which
# are zeros; as signed words, which every ring can hold.
_TURN_0 = tl.constexpr(0x28BE60DB93)
_TURN_1 = tl.constexpr(0xBE60DB9391054A7F - 2**64)
_TURN_2 = tl.constexpr(0x91054A7F09D5F47D - 2**64)
_TURN_3 = tl.constexpr(0x9D5F47D4D377036)
_TURN_4 = tl.constexpr(0x4D377036D8A5664F)
_TURN_5 = tl.constexpr(0xD8A5664F10E4107F - 2**64)
_TURN_6 = tl.constexpr(0x10E4107F9458EAF7)


@triton.jit
def _reduced(a):
    """Return k, r = a - k ln 2, and the q with which e^r - 1 = r + r^2 q."""
    k = tl.floor(a * _LOG2_E + 0.5)
    r = (a - k * _LN2_HIGH) - k * _LN2_LOW
    q = 1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * (1 / 40320)))
    q = 1 / 2 + r * (1 / 6 + r * (1 / 24 + r * q))
    return k, r, q


@triton.jit
def tanh(x):
    """Compute e / (e + 2) for e = expm1(2 |x|), which keeps relative accuracy everywhere."""
    a = tl.abs(x)
    # tanh(10) rounds to 1. A NaN compares false, and comes back in the last line.
    a = 2.0 * tl.where(a < 10.0, a, 10.0)
    k, r, q = _reduced(a)
    power = ((k.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    e = power * (r + r * r * q) + (power - 1.0)
    t = tl.div_rn(e, e + 2.0)
    return tl.where(x > 0, t, tl.where(x < 0, -t, x))


@triton.jit
def expm1(x):
    """Compute 2^k e^r - 1 for r = x - k ln 2, and r (1 + r q) alone where k is 0."""
    # Beyond these ends the results are -1 and infinity. A NaN compares false, and comes back below.
    a = tl.where(x > -25.0, tl.where(x < 89.0, x, 89.0), -25.0)
    k, r, q = _reduced(a)
    s = r * (1.0 + r * q)
    # Half the power, as 2^128 is no fp32 number.
    half = ((k.to(tl.int32) + 126) << 23).to(tl.float32, bitcast=True)
    far = 2.0 * (half * s + (half - 0.5))
    # A zero keeps its sign, which the differences of r do not.
    return tl.where((x == 0) | (x != x), x, tl.where(k == 0.0, s, far))


@triton.jit
def log1p(x):
    """Compute log(u) x / (u - 1) for the rounded u = 1 + x, in which its rounding cancels."""
    u = 1.0 + x
    exact = u - 1.0 == x
    mended = tl.log(u) * tl.div_rn(x, u - 1.0)
    return tl.where(u == 1.0, x, tl.where(exact, tl.log(u), mended))


@triton.jit
def erf(x):
    """Compute x + x p(x^2) up to 1, and 1 - e^-q(|x| - 1) beyond."""
    a, s = tl.abs(x), x * x
    p = 0.005191553384065628 + s * (-0.0008040553657338023 + s * 7.960543734952807e-05)
    p = 0.11283619701862335 + s * (-0.026855383068323135 + s * p)
    p = 0.12837916612625122 + s * (-0.3761262893676758 + s * p)
    # erf(4) rounds to 1. A NaN compares false, and comes back in the last line.
    t = tl.where(a < 4.0, a, 4.0) - 1.0
    q = -0.009895432740449905 + t * (0.001829364220611751 + t * -0.00018637462926562876)
    q = 0.8431175947189331 + t * (0.04150347784161568 + t * q)
    q = 1.8496055603027344 + t * (2.6389667987823486 + t * q)
    far = 1.0 - tl.exp(-q)
    far = tl.where(x < 0, -far, far)
    return tl.where(a < 1.0, x + x * p, tl.where(x == x, far, x))


@triton.jit
def shrunk(x):
    """Compute e^-|x|, which overflows nowhere."""
    return tl.exp(-tl.abs(x))


@triton.jit
def logistic(x):
    """Compute 1 / (1 + e^-x) from e^-|x|."""
    e = shrunk(x)
    return tl.div_rn(tl.where(x < 0, e, 1.0), 1.0 + e)


@triton.jit
def softened(x):
    """Compute ln(1 + e^x) from e^-|x|."""
    return tl.where(x < 0, 0.0, x) + log1p(shrunk(x))


@triton.jit
def turned(v):
    """Return cosine and sine of 2 pi v for v in [0, 1], with relative accuracy at their zeros."""
    # Quarter turns are taken off exactly; what is left is an eighth of a turn, at most.
    quarter = tl.floor(4.0 * v + 0.5)
    t = v - 0.25 * quarter
    return _waves(quarter.to(tl.int32) & 3, t * _TWO_PI)


@triton.jit
def _waves(place, x):
    """Return cosine and sine of place quarter turns and an angle x, an eighth of a turn at most."""
    s = x * x
    c = 1 - s * (1 / 2 - s * (1 / 24 - s * (1 / 720 - s * (1 / 40320 - s * (1 / 3628800)))))
    s = x - x * s * (1 / 6 - s * (1 / 120 - s * (1 / 5040 - s * (1 / 362880))))
    odd = (place & 1) == 1
    cosine, sine = tl.where(odd, s, c), tl.where(odd, c, s)
    return tl.where((place == 1) | (place == 2), -cosine, cosine), tl.where(place < 2, sine, -sine)


@triton.jit
def _one_of(k, zeroth, first, second, third, fourth):
    """Return the k-th of five words."""
    chosen = tl.where(k == 0, zeroth, tl.where(k == 1, first, second))
    return tl.where(k == 3, third, tl.where(k == 4, fourth, chosen)).to(tl.uint64)


@triton.jit
def _reduced_angle(a):
    """Return how many quarter turns to take off a >= 0, modulo 4, and the angle that is left.

    a is m 2^e for integers; of 1 / (2 pi), times 2^e, the 128 bits behind the whole turns that m
    makes of it are chosen, and m times them is a fraction of a turn to 63 bits (Payne and Hanek).
    The fp32 number nearest to a zero is still 2^-33 of a turn away from it.
    """
    bits = a.to(tl.int32, bitcast=True)
    # Below 1/2 nothing is reduced, and the shift need not be right.
    shift = tl.maximum((bits >> 23) - 126, 0)
    m = ((bits & 0x7FFFFF) | 0x800000).to(tl.uint64)
    word, rest = shift >> 5, (shift & 31).to(tl.uint64)
    high = _one_of(word, _TURN_0, _TURN_1, _TURN_2, _TURN_3, _TURN_4)
    low = _one_of(word, _TURN_2, _TURN_3, _TURN_4, _TURN_5, _TURN_6)
    above = (high << rest) | ((low >> 1) >> (63 - rest))
    below = (low << rest) >> 32
    turn = m * above + ((m * below) >> 32)
    quarter = (turn + 0x2000000000000000) >> 62
    left = (turn - (quarter << 62)).to(tl.int64, bitcast=True)
    near = a < _EIGHTH
    angle = tl.where(near, a, left.to(tl.float32) * _RADIANS)
    return tl.where(near, 0, quarter.to(tl.int32)), angle


@triton.jit
def sin(x):
    """Compute the sine of any angle; that of no number, and of what is infinite, is NaN."""
    place, angle = _reduced_angle(tl.abs(x))
    _, sine = _waves(place, angle)
    sine = tl.where(x < 0, -sine, sine)
    return tl.where(x == 0, x, tl.where(tl.abs(x) < float("inf"), sine, x - x))


@triton.jit
def cos(x):
    """Compute the cosine of any angle; that of no number, and of what is infinite, is NaN."""
    place, angle = _reduced_angle(tl.abs(x))
    cosine, _ = _waves(place, angle)
    return tl.where(tl.abs(x) < float("inf"), cosine, x - x)


@triton.jit
def cos_of_turns(v):
    """Compute the cosine alone, for a sweep."""
    cosine, _ = turned(v)
    return cosine


@triton.jit
def sin_of_turns(v):
    """Compute the sine alone, for a sweep."""
    _, sine = turned(v)
    return sine
