"""Value regimes: the named ways in which a case fills a tensor with numbers.

A regime is a function from a random source and a shape to Python floats (or ints, for indices), in
row-major order, as far as the dtype's `Reach` goes.  Every regime is deterministic in the text seed
it receives, so a case that is a few words long always denotes the same numbers.  The numbers are
rounded to the case's dtype afterwards: what a backend receives is what the oracle lifts.
"""

# This file is longer than the guide because the regimes stand in one table.

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import product

from equivalence.dtypes import BF16, FAR, FP16, FP32, Format, Reach
from spec.op import Integers

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


def _integer(rng: random.Random, reach: Reach) -> float:
    return float(rng.randint(-4, 4))


def _normal(rng: random.Random, reach: Reach) -> float:
    return rng.gauss(0.0, 1.0)


def _mixed(rng: random.Random, reach: Reach) -> float:
    return math.ldexp(rng.gauss(0.0, 1.0), rng.randint(-reach.mixed, reach.mixed))


def _offset(rng: random.Random, reach: Reach) -> float:
    return reach.offset + rng.gauss(0.0, 1.0)


def _sparse(rng: random.Random, reach: Reach) -> float:
    return rng.choice((0.0, 0.0, -0.0, 1.0, rng.gauss(0.0, 1.0)))


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


def _tie(rng: random.Random, reach: Reach) -> float:
    return rng.choice((-1.0, 0.5, 0.5))


def _kink(rng: random.Random, reach: Reach) -> float:
    magnitude = rng.choice((0.0, 2.0**-40, 2.0**-24, 2.0**-10, 1.0))
    return math.copysign(magnitude, rng.choice((-1.0, 1.0)))


def _tiny(rng: random.Random, reach: Reach) -> float:
    return math.ldexp(rng.gauss(0.0, 1.0), reach.tiny)


def _small(rng: random.Random, reach: Reach) -> float:
    return math.ldexp(rng.gauss(0.0, 1.0), reach.small)


def _nothing(rng: random.Random, reach: Reach) -> float:
    return 0.0


def _logit(rng: random.Random, reach: Reach) -> float:
    return reach.logit * rng.gauss(0.0, 1.0)


def _positive(rng: random.Random, reach: Reach) -> float:
    return math.ldexp(1.0 + rng.random(), rng.randint(-4, 4))


def _near_one(rng: random.Random, reach: Reach) -> float:
    return 1.0 + math.ldexp(rng.gauss(0.0, 1.0), -rng.randint(4, 12))


def _positive_mixed(rng: random.Random, reach: Reach) -> float:
    return math.ldexp(1.0 + rng.random(), rng.randint(-reach.positive, reach.positive))


def _positive_integer(rng: random.Random, reach: Reach) -> float:
    return float(rng.randint(1, 16))


def _past_minus_one(rng: random.Random, reach: Reach) -> float:
    near = math.ldexp(1.0 + rng.random(), -rng.randint(1, 12))
    return rng.choice((near - 1.0, -math.ldexp(near, -2), near, math.ldexp(near, 6)))


def _nonzero(rng: random.Random, reach: Reach) -> float:
    return math.copysign(0.5 + abs(rng.gauss(0.0, 1.0)), rng.choice((-1.0, 1.0)))


def _nonzero_integer(rng: random.Random, reach: Reach) -> float:
    return float(rng.choice((-4, -3, -2, -1, 1, 2, 3, 4)))


def _nonzero_mixed(rng: random.Random, reach: Reach) -> float:
    return math.ldexp(_nonzero(rng, reach), rng.randint(-reach.mixed, reach.mixed))


def _unit(rng: random.Random, reach: Reach) -> float:
    """Draw a sign, and seldom more: products of many are exact, and of all sizes."""
    size = rng.choice((2.0, 0.5, 2.0, 0.5, 3.0, 0.0)) if rng.random() < 1 / 16 else 1.0
    return math.copysign(size, rng.choice((-1.0, 1.0)))


def _factor(rng: random.Random, reach: Reach) -> float:
    """Draw a number of which products of a thousand are in range, by whatever order; or 0."""
    if rng.random() < 1 / 256:
        return 0.0
    return math.copysign(2.0 ** (0.25 * rng.gauss(0.0, 1.0)), rng.choice((-1.0, 1.0)))


def _mixed_zeros(rng: random.Random, reach: Reach) -> float:
    return 0.0 if rng.random() < 0.25 else _mixed(rng, reach)


def _constant(rng: random.Random, shape: Shape, reach: Reach) -> list[float]:
    """Fill every slice along the last axis with one value, a large one among them."""
    length = shape[-1] if shape else 1
    values: list[float] = []
    for row in range(math.prod(shape[:-1])):
        value = reach.constant if row == 0 else rng.choice((reach.constant, 1.0, -0.1, 3.0, 0.0))
        values.extend([value] * length)
    return values


def _one_hot(rng: random.Random, shape: Shape, reach: Reach) -> list[float]:
    """Fill every slice along the last axis with zeros and one non-zero, which is not 1."""
    length = shape[-1] if shape else 1
    values: list[float] = []
    for _ in range(math.prod(shape[:-1])):
        row = [0.0] * length
        if length:
            row[rng.randrange(length)] = rng.choice((-2.0, 0.75, 3.0)) + rng.gauss(0.0, 0.1)
        values.extend(row)
    return values


SPECIALS = (math.nan, math.inf, -math.inf)


SHORT = 16
"""Rows of no more entries are short."""

Change = Callable[[random.Random, int, list[float], Reach], None]


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
            row = [_normal(rng, reach) for _ in range(length)]
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


def _alone(rng: random.Random, shape: Shape, reach: Reach) -> list[float]:
    """Put one number that is not finite among all: first, in the middle, last, or anywhere."""
    values = [_normal(rng, reach) for _ in range(math.prod(shape))]
    if values:
        values[_place(rng, len(values))] = rng.choice(SPECIALS)
    return values


def _signed_zero(rng: random.Random, reach: Reach) -> float:
    return rng.choice((-0.0, -0.0, 0.0, rng.gauss(0.0, 1.0)))


def _subnormal(rng: random.Random, reach: Reach) -> float:
    size = rng.randint(1, round(reach.smallest / reach.least) - 1) * reach.least
    return rng.choice((size, -size, size, reach.least, rng.gauss(0.0, 1.0)))


def _smallest(rng: random.Random, reach: Reach) -> float:
    return rng.choice((-1.0, 1.0)) * reach.smallest * rng.choice((1.0, 1.0 + rng.random()))


def _root(rng: random.Random, reach: Reach) -> float:
    """Draw a number whose square is subnormal, or nearly so."""
    size = math.ldexp(1.0 + rng.random(), rng.randint(-7, 0))
    return rng.choice((-1.0, 1.0)) * size * math.sqrt(reach.smallest)


KINDS = ("nan", "inf", "-inf", "largest", "-0", "subnormal")
"""The kinds of special numbers."""

FINITE = ("largest", "-0", "subnormal")
"""Those that are finite: a checkpoint with others may be refused."""

SPOTS = ("first", "middle", "last", "behind")
"""Where in a row a number may stand; behind is what lies behind the last full block, not last."""

_ROUNDS = 5
"""How many rows have every kind once: two zeros of a kind leave each other as they are."""

TURNS = _ROUNDS * len(SPOTS)
"""How many rows have every kind at every spot."""


def spot(place: str, length: int) -> int:
    """Return where in a row of some length a place is; behind a block of a power of two.

    >>> [spot(place, 1033) for place in SPOTS]
    [0, 516, 1032, 1028]
    """
    block = 1 << max(length - 2, 1).bit_length() - 1
    behind = min(block + max(length - 1 - block, 0) // 2, length - 1)
    return {"first": 0, "middle": length // 2, "last": length - 1, "behind": behind}[place]


def special(kind: str, rng: random.Random, reach: Reach) -> float:
    """Return a number of a kind."""
    if kind == "subnormal":
        most = round(reach.smallest / reach.least) - 1
        return rng.choice((-1.0, 1.0)) * rng.randint(1, most) * reach.least
    if kind == "largest":
        return rng.choice((-1.0, 1.0)) * reach.largest
    return float(kind)


def _specials(rng: random.Random, turn: int, row: list[float], reach: Reach) -> None:
    """Put one kind of special number at one spot of a row, by turns; of two kinds one at each."""
    step, first = turn % _ROUNDS, turn // _ROUNDS
    kinds = KINDS[step:] if step == _ROUNDS - 1 else KINDS[step : step + 1]
    for k, kind in enumerate(kinds):
        place = SPOTS[(first + step + k) % len(SPOTS)]
        row[spot(place, len(row))] = special(kind, rng, reach)


def _specials_together(rng: random.Random, turn: int, row: list[float], reach: Reach) -> None:
    """Put another kind of special number at each spot of a row, by turns."""
    for k, place in enumerate(SPOTS):
        row[spot(place, len(row))] = special(KINDS[(turn + k) % len(KINDS)], rng, reach)


def _finite_together(rng: random.Random, turn: int, row: list[float], reach: Reach) -> None:
    """Put another finite kind of special number at each spot of a row, by turns."""
    for k, place in enumerate(SPOTS):
        row[spot(place, len(row))] = special(FINITE[(turn + k) % len(FINITE)], rng, reach)


def _peak(rng: random.Random, turn: int, row: list[float], reach: Reach) -> None:
    """Let one number of a row stand out, by turns, so far that exponentials overflow below it."""
    row[spot(SPOTS[turn % len(SPOTS)], len(row))] = reach.peak


def _last_terms(rng: random.Random, turn: int, row: list[float], reach: Reach) -> None:
    """Let the last numbers of a row weigh most, so that it shows where they are dropped."""
    for k in range(len(row)):
        row[k] *= 1.0 if k + 1 == len(row) else 2.0**-6


BY_TURNS: dict[str, Change] = {
    "specials": _specials,
    "specials_together": _specials_together,
    "finite_specials": _finite_together,
    "peaks": _peak,
    "last_terms": _last_terms,
}
"""The regimes that change row after row in turn, from the turn of their seed on."""


def _in_turns(
    change: Change, rng: random.Random, turn: int, shape: Shape, reach: Reach
) -> list[float]:
    """Fill rows with normal numbers, and change each by its turn."""
    length = shape[-1] if shape else 1
    values: list[float] = []
    for number in range(math.prod(shape[:-1])):
        row = [_normal(rng, reach) for _ in range(length)]
        if length:
            change(rng, turn + number, row, reach)
        values.extend(row)
    return values


BY_ROWS: dict[str, Fill] = {
    "largest": _rows(_large),
    "special_in_rows": _rows(_one_special),
    "opposite": _rows(_opposites),
    "impossible": _rows(_impossible),
}
"""The regimes that say something of whole rows."""

REGIMES: dict[str, Fill] = {
    "integers": each(_integer),
    "units": each(_unit),
    "normal": each(_normal),
    "mixed": each(_mixed),
    "offset": each(_offset),
    "zeros": each(_sparse),
    "ties": each(_tie),
    "kinks": each(_kink),
    "constant": _constant,
    "logits": each(_logit),
    "tiny": each(_tiny),
    "nonzero_integers": each(_nonzero_integer),
    "nonzero": each(_nonzero),
    "nonzero_mixed": each(_nonzero_mixed),
    "positive_integers": each(_positive_integer),
    "positive": each(_positive),
    "near_one": each(_near_one),
    "past_minus_one": each(_past_minus_one),
    "positive_mixed": each(_positive_mixed),
    "factors": each(_factor),
    "mixed_zeros": each(_mixed_zeros),
    "one_hot": _one_hot,
    "small": each(_small),
    "nothing": each(_nothing),
    "signed_zeros": each(_signed_zero),
    "smallest": each(_smallest),
    "subnormal": each(_subnormal),
    "roots": each(_root),
    "largest": BY_ROWS["largest"],
    "special_alone": _alone,
    **BY_ROWS,
    "nearly_ties": nearly_ties,
}
"""Plainest first, which is the order in which cases shrink."""

ENDS = ("signed_zeros", "smallest", "subnormal", "roots", "largest")
"""The regimes of finite numbers at the ends of a format."""

NONFINITE = (*ENDS, "special_alone", "special_in_rows", "opposite", "impossible")
"""The regimes of what is not finite, or just so: NaN, the infinities, and where a format ends."""

VANISHING = ("tiny",)
"""The regimes of numbers whose squares are 0: who squares them has lost them, and may say so."""

SPECIAL = ("specials", "specials_together")
"""The regimes in which every kind of special number stands at every spot."""

EVERY = "every"
"""Every number of a format, those at its ends among them: a large case's regime."""

MASK_REGIMES: dict[str, float] = {
    "truths": 0.5,
    "all_true": 1.0,
    "all_false": 0.0,
    "few_true": 0.1,
}
"""How probable it is that an entry of a mask is true."""

INDEX_REGIMES = ("indices", "repeated", "ends", "some_ignored", "all_ignored")


def fill(
    regime: str, seed: int, position: str, shape: Shape, reach: Reach = FAR, axis: int = -1
) -> list[float]:
    """Return the numbers of one tensor, row-major, before rounding to a dtype.

    axis is that of the rows, where a regime is one of rows.
    """
    if regime not in REGIMES and regime not in BY_TURNS:
        known = ", ".join((*REGIMES, *BY_TURNS))
        raise ValueError(f"unknown value regime {regime!r}; known: {known}")
    rng = source(seed, position)

    def filled(shape: Shape) -> list[float]:
        if regime in BY_TURNS:
            return _in_turns(BY_TURNS[regime], rng, seed, shape, reach)
        return REGIMES[regime](rng, shape, reach)

    by_rows = regime in BY_ROWS or regime in BY_TURNS
    if not by_rows or not shape or axis % len(shape) == len(shape) - 1:
        return filled(shape)
    axis %= len(shape)
    outer, length = math.prod(shape[:axis]), shape[axis]
    inner = math.prod(shape[axis + 1 :])
    rows = filled((outer * inner, length))
    # rows lie one behind the other; the entries of a column of rows lie so in the tensor.
    blocks = (rows[b * inner * length : (b + 1) * inner * length] for b in range(outer))
    return [number for block in blocks for k in range(length) for number in block[k::length]]


def fill_indices(
    regime: str, seed: int, position: str, shape: Shape, allowed: Integers
) -> list[int]:
    """Return the integers of one index tensor, row-major, all of them in range."""
    if regime not in INDEX_REGIMES:
        raise ValueError(f"unknown index regime {regime!r}; known: {', '.join(INDEX_REGIMES)}")
    count = math.prod(shape)
    rng = source(seed, position)
    if regime == "all_ignored" and allowed.also:
        return [_other(rng, allowed) for _ in range(count)]
    return [_index(rng, regime, allowed) for _ in range(count)]


def fill_mask(regime: str, seed: int, position: str, shape: Shape) -> list[int]:
    """Return the truth values of one mask, row-major, as 0 and 1."""
    if regime not in MASK_REGIMES:
        raise ValueError(f"unknown mask regime {regime!r}; known: {', '.join(MASK_REGIMES)}")
    rng = source(seed, position)
    return [int(rng.random() < MASK_REGIMES[regime]) for _ in range(math.prod(shape))]


def _index(rng: random.Random, regime: str, allowed: Integers) -> int:
    first: int = allowed.lowest
    last: int = allowed.highest
    if regime == "some_ignored" and allowed.also and rng.random() < 0.3:
        return _other(rng, allowed)
    if regime == "repeated":
        return min(first + rng.choice((0, 0, 1)), last)
    if regime == "ends":
        return rng.choice((first, last))
    return rng.randint(first, last)


def _other(rng: random.Random, allowed: Integers) -> int:
    """Draw one of those that are allowed beside the interval; one alone is not drawn for."""
    return allowed.also[0] if len(allowed.also) == 1 else rng.choice(allowed.also)
