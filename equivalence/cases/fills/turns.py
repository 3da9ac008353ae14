"""Kinds of special numbers, and the places in a row where they stand, row after row in turn."""

from __future__ import annotations

import math
import random
from itertools import combinations

from equivalence.cases.fills.entries import Shape, normal
from equivalence.cases.fills.rows import Change
from equivalence.dtypes import Reach

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

LEADING = 8.0
"""The largest number of a row, or less 0 the smallest: no normal number comes near, and every dtype
has it."""

EQUALS = ("nan", "inf", "-inf", "largest", "smallest", "zeros below", "zeros above")
"""What two numbers of a row are that are equal, or both NaN: zeros of any sign are its largest or
its smallest numbers."""

TWO_SPOTS = tuple(combinations(SPOTS, 2))
"""The spots at which two numbers of a row are equal."""

EQUAL_TURNS = math.lcm(len(EQUALS), len(TWO_SPOTS))
"""How many rows have every pair of equal numbers at every two spots."""


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


def _level(rng: random.Random, turn: int, row: list[float], reach: Reach) -> None:
    """Move a row up, down, or not at all, by turns, so far that neighbours share no exponent."""
    level = (0.0, reach.peak, -reach.peak)[turn % 3]
    row[:] = [x + level for x in row]


def _equals(rng: random.Random, turn: int, row: list[float], reach: Reach) -> None:
    """Let two numbers of a row be equal and lead it, or be NaN or infinite, by turns."""
    kind, spots = EQUALS[turn % len(EQUALS)], TWO_SPOTS[turn % len(TWO_SPOTS)]
    if kind.startswith("zeros"):
        side = -1.0 if kind.endswith("below") else 1.0
        row[:] = [side * (abs(x) + reach.smallest) for x in row]
    known = {"largest": LEADING, "smallest": -LEADING}
    for place in spots:
        zero = rng.choice((0.0, -0.0))
        row[spot(place, len(row))] = (
            zero if kind.startswith("zeros") else known[kind] if kind in known else float(kind)
        )


def _last_terms(rng: random.Random, turn: int, row: list[float], reach: Reach) -> None:
    """Let the last numbers of a row weigh most, so that it shows where they are dropped."""
    for k in range(len(row)):
        row[k] *= 1.0 if k + 1 == len(row) else 2.0**-6


BY_TURNS: dict[str, Change] = {
    "specials": _specials,
    "specials_together": _specials_together,
    "finite_specials": _finite_together,
    "peaks": _peak,
    "levels": _level,
    "equals": _equals,
    "last_terms": _last_terms,
}
"""The regimes that change row after row in turn, from the turn of their seed on."""


def in_turns(
    change: Change, rng: random.Random, turn: int, shape: Shape, reach: Reach
) -> list[float]:
    """Fill rows with normal numbers, and change each by its turn."""
    length = shape[-1] if shape else 1
    values: list[float] = []
    for number in range(math.prod(shape[:-1])):
        row = [normal(rng, reach) for _ in range(length)]
        if length:
            change(rng, turn + number, row, reach)
        values.extend(row)
    return values


SPECIAL = ("specials", "specials_together")
"""The regimes in which every kind of special number stands at every spot."""
