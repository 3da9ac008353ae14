"""Ties of formats, and numbers that a format between makes ties of."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import product

from equivalence.cases.fills.entries import Shape
from equivalence.dtypes import BF16, FP16, FP32, Format, Reach

BEYOND = (0, 13, 20, 26, 40, 50)
"""How many places behind a number's first bit it differs from a tie, 0 where it is one."""


def _normal_tie(format: Format, units: float) -> float:
    return 1.0 + units * 2.0 ** (1 - format.precision)


def _smallest_tie(format: Format, units: float) -> float:
    return units * 2.0**format.least_exponent


def _largest_tie(format: Format, units: float) -> float:
    return (2.0 - format.unit) * 2.0**format.max_exponent


TIES = (_normal_tie, _smallest_tie, _largest_tie)


def nearly_ties(rng: random.Random, shape: Shape, reach: Reach) -> list[float]:
    """Draw ties of formats, and what lies beside them beyond the width of a narrower format.

    Who rounds by way of a format between makes a tie of it, and rounds that to even. Ties lie among
    normal numbers, between the smallest ones, and where what rounds up is infinite. The kinds take
    turns, so that as many numbers as there are kinds have all of them.
    """
    kinds = [
        (format, place, beside)
        for format, place, beyond in product((BF16, FP16, FP32), TIES, BEYOND)
        for beside in ((2.0**-beyond, -(2.0**-beyond)) if beyond > format.precision else (0.0,))
    ]
    rng.shuffle(kinds)
    return [_beside_a_tie(rng, reach, *kinds[k % len(kinds)]) for k in range(math.prod(shape))]


def _beside_a_tie(
    rng: random.Random,
    reach: Reach,
    format: Format,
    place: Callable[[Format, float], float],
    beside: float,
) -> float:
    """Return a number beside a tie, of either sign; a normal one where it is out of reach."""
    units = rng.randint(0, 7) + 0.5
    size = place(format, units) * (1.0 + beside)
    if place is _normal_tie or not reach.least <= size <= reach.largest:
        size = math.ldexp(_normal_tie(format, units) + beside, rng.randint(-3, 3))
    return rng.choice((-1.0, 1.0)) * size
