"""The regimes that say something of whole rows, or of all numbers at once."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from equivalence.cases.fills.entries import Fill, Shape, normal
from equivalence.dtypes import Reach

SPECIALS = (math.nan, math.inf, -math.inf)

SHORT = 16
"""Rows of no more entries are short."""

Change = Callable[[random.Random, int, list[float], Reach], None]


def constant(rng: random.Random, shape: Shape, reach: Reach) -> list[float]:
    """Fill every slice along the last axis with one value, a large one among them."""
    length = shape[-1] if shape else 1
    values: list[float] = []
    for row in range(math.prod(shape[:-1])):
        value = reach.constant if row == 0 else rng.choice((reach.constant, 1.0, -0.1, 3.0, 0.0))
        values.extend([value] * length)
    return values


def one_hot(rng: random.Random, shape: Shape, reach: Reach) -> list[float]:
    """Fill every slice along the last axis with zeros and one non-zero, which is not 1."""
    length = shape[-1] if shape else 1
    values: list[float] = []
    for _ in range(math.prod(shape[:-1])):
        row = [0.0] * length
        if length:
            row[rng.randrange(length)] = rng.choice((-2.0, 0.75, 3.0)) + rng.gauss(0.0, 0.1)
        values.extend(row)
    return values


def _rows(change: Change) -> Fill:
    """Turn a rule that changes a row of normal numbers, by its number, into a regime."""

    def fill(rng: random.Random, shape: Shape, reach: Reach) -> list[float]:
        length = shape[-1] if shape else 1
        values: list[float] = []
        # Every second row may be left as it is, so that a lone one has an even number. What 0 does
        # to all of a row is seen in short ones; of long ones it matters what stands where.
        lone = (0, 2, 4) if length <= SHORT else (2, 4)
        first = rng.randrange(6) if math.prod(shape[:-1]) > 1 else rng.choice(lone)
        for number in range(math.prod(shape[:-1])):
            row = [normal(rng, reach) for _ in range(length)]
            if length:
                change(rng, first + number, row, reach)
            values.extend(row)
        return values

    return fill


def _place(rng: random.Random, length: int) -> int:
    """Choose the first place, a middle one, the last one, or any."""
    return rng.choice((0, length // 2, length - 1, rng.randrange(length)))


def _one_special(rng: random.Random, number: int, row: list[float], reach: Reach) -> None:
    """Put a number that is not finite into every other row, at some place."""
    if number % 2 == 0:
        row[_place(rng, len(row))] = rng.choice(SPECIALS)


def _opposites(rng: random.Random, number: int, row: list[float], reach: Reach) -> None:
    """Put infinities of both signs, or of one, into every other row."""
    if number % 2 == 0:
        row[_place(rng, len(row))] = math.inf
        row[_place(rng, len(row))] = rng.choice((-math.inf, -math.inf, math.inf))


def _impossible(rng: random.Random, number: int, row: list[float], reach: Reach) -> None:
    """Fill a row with -inf, begin and end it with many, do one of both, or leave it."""
    length = len(row)
    begins, left = ((0, 0), (3, 1), (2, 1), (0, 4), (2, 1), (0, 1))[number % 6]
    begin = length * begins // 4
    end = begin + (max(length * left // 4, 1) if left else 0)
    row[:] = [x if begin <= k < end else -math.inf for k, x in enumerate(row)]


def _large(rng: random.Random, number: int, row: list[float], reach: Reach) -> None:
    """Fill a row with numbers whose sum overflows or cancels, or with some whose sum is in range,
    or put the largest number among others."""
    if number % 3 == 2:
        row[_place(rng, len(row))] = rng.choice((-1.0, 1.0)) * reach.largest
        return
    share = 1 if number % 3 == 0 else 4 * len(row)
    row[:] = [rng.choice((-1.0, 1.0)) * (0.5 + 0.5 * rng.random()) / share for _ in row]
    row[:] = [x * reach.largest for x in row]


def alone(rng: random.Random, shape: Shape, reach: Reach) -> list[float]:
    """Put one number that is not finite among all: first, in the middle, last, or anywhere."""
    values = [normal(rng, reach) for _ in range(math.prod(shape))]
    if values:
        values[_place(rng, len(values))] = rng.choice(SPECIALS)
    return values


BY_ROWS: dict[str, Fill] = {
    "largest": _rows(_large),
    "special_in_rows": _rows(_one_special),
    "opposite": _rows(_opposites),
    "impossible": _rows(_impossible),
}
"""The regimes that say something of whole rows."""
