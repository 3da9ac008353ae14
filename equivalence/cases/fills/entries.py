"""The rules for one entry at a time: each draws a number from a random source."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from equivalence.dtypes import Reach

Shape = tuple[int, ...]

Fill = Callable[[random.Random, Shape, Reach], list[float]]


def source(seed: int, position: str) -> random.Random:
    """Return the random source of one tensor; a text seed means the same on every platform."""
    return random.Random(f"{seed}:{position}")


def each(draw: Callable[[random.Random, Reach], float]) -> Fill:
    """Turn a rule for one element into a regime."""

    def fill(rng: random.Random, shape: Shape, reach: Reach) -> list[float]:
        return [draw(rng, reach) for _ in range(math.prod(shape))]

    return fill


def integer(rng: random.Random, reach: Reach) -> float:
    """Draw a small integer."""
    return float(rng.randint(-4, 4))


def normal(rng: random.Random, reach: Reach) -> float:
    """Draw a normal number."""
    return rng.gauss(0.0, 1.0)


def mixed(rng: random.Random, reach: Reach) -> float:
    """Draw numbers of many magnitudes."""
    return math.ldexp(rng.gauss(0.0, 1.0), rng.randint(-reach.mixed, reach.mixed))


def offset(rng: random.Random, reach: Reach) -> float:
    """Draw numbers far from 0 and close to each other."""
    return reach.offset + rng.gauss(0.0, 1.0)


def sparse(rng: random.Random, reach: Reach) -> float:
    """Draw mostly zeros, of both signs."""
    return rng.choice((0.0, 0.0, -0.0, 1.0, rng.gauss(0.0, 1.0)))


def tie(rng: random.Random, reach: Reach) -> float:
    """Draw one of few numbers, so that many are equal."""
    return rng.choice((-1.0, 0.5, 0.5))


def kink(rng: random.Random, reach: Reach) -> float:
    """Draw a number at a kink at 0, or near it."""
    magnitude = rng.choice((0.0, 2.0**-40, 2.0**-24, 2.0**-10, 1.0))
    return math.copysign(magnitude, rng.choice((-1.0, 1.0)))


def tiny(rng: random.Random, reach: Reach) -> float:
    """Draw a number whose square is 0."""
    return math.ldexp(rng.gauss(0.0, 1.0), reach.tiny)


def small(rng: random.Random, reach: Reach) -> float:
    """Draw a number close to 0."""
    return math.ldexp(rng.gauss(0.0, 1.0), reach.small)


def nothing(rng: random.Random, reach: Reach) -> float:
    """Draw 0."""
    return 0.0


def logit(rng: random.Random, reach: Reach) -> float:
    """Draw a number of which exponentials are far apart."""
    return reach.logit * rng.gauss(0.0, 1.0)


def positive(rng: random.Random, reach: Reach) -> float:
    """Draw a positive number."""
    return math.ldexp(1.0 + rng.random(), rng.randint(-4, 4))


def near_one(rng: random.Random, reach: Reach) -> float:
    """Draw a number close to 1."""
    return 1.0 + math.ldexp(rng.gauss(0.0, 1.0), -rng.randint(4, 12))


def positive_mixed(rng: random.Random, reach: Reach) -> float:
    """Draw positive numbers of many magnitudes."""
    return math.ldexp(1.0 + rng.random(), rng.randint(-reach.positive, reach.positive))


def positive_integer(rng: random.Random, reach: Reach) -> float:
    """Draw a positive integer."""
    return float(rng.randint(1, 16))


def past_minus_one(rng: random.Random, reach: Reach) -> float:
    """Draw a number above -1, often close to it or to 0."""
    near = math.ldexp(1.0 + rng.random(), -rng.randint(1, 12))
    return rng.choice((near - 1.0, -math.ldexp(near, -2), near, math.ldexp(near, 6)))


def nonzero(rng: random.Random, reach: Reach) -> float:
    """Draw a number away from 0."""
    return math.copysign(0.5 + abs(rng.gauss(0.0, 1.0)), rng.choice((-1.0, 1.0)))


def nonzero_integer(rng: random.Random, reach: Reach) -> float:
    """Draw a small integer other than 0."""
    return float(rng.choice((-4, -3, -2, -1, 1, 2, 3, 4)))


def nonzero_mixed(rng: random.Random, reach: Reach) -> float:
    """Draw numbers of many magnitudes, and none that is 0."""
    return math.ldexp(nonzero(rng, reach), rng.randint(-reach.mixed, reach.mixed))


def unit(rng: random.Random, reach: Reach) -> float:
    """Draw a sign, and seldom more: products of many are exact, and of all sizes."""
    size = rng.choice((2.0, 0.5, 2.0, 0.5, 3.0, 0.0)) if rng.random() < 1 / 16 else 1.0
    return math.copysign(size, rng.choice((-1.0, 1.0)))


def factor(rng: random.Random, reach: Reach) -> float:
    """Draw a number of which products of a thousand are in range, by whatever order; or 0."""
    if rng.random() < 1 / 256:
        return 0.0
    return math.copysign(2.0 ** (0.25 * rng.gauss(0.0, 1.0)), rng.choice((-1.0, 1.0)))


def mixed_zeros(rng: random.Random, reach: Reach) -> float:
    """Draw numbers of many magnitudes, and zeros."""
    return 0.0 if rng.random() < 0.25 else mixed(rng, reach)


def signed_zero(rng: random.Random, reach: Reach) -> float:
    """Draw mostly zeros below 0."""
    return rng.choice((-0.0, -0.0, 0.0, rng.gauss(0.0, 1.0)))


def subnormal(rng: random.Random, reach: Reach) -> float:
    """Draw mostly subnormal numbers."""
    size = rng.randint(1, round(reach.smallest / reach.least) - 1) * reach.least
    return rng.choice((size, -size, size, reach.least, rng.gauss(0.0, 1.0)))


def smallest(rng: random.Random, reach: Reach) -> float:
    """Draw the smallest normal number, or one close to it."""
    return rng.choice((-1.0, 1.0)) * reach.smallest * rng.choice((1.0, 1.0 + rng.random()))


def root(rng: random.Random, reach: Reach) -> float:
    """Draw a number whose square is subnormal, or nearly so."""
    size = math.ldexp(1.0 + rng.random(), rng.randint(-7, 0))
    return rng.choice((-1.0, 1.0)) * size * math.sqrt(reach.smallest)
