"""The shapes of calls: where the long axis lies, what lies beside it, and how it is named."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Levels
from equivalence.cases.families.signatures import Draw, Shape

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257)
"""Small numbers, primes, and the neighbours of every likely tile."""

RANKS = (2, 1, 3, 4, 5, 6)

PLACES = ("last", "first", "middle")
"""Where among the axes the one lies that a family is about."""

BESIDE = ("few", "many", "square", "behind one")
"""How many slices lie beside that axis: a few, more than 256, as many as it has entries, or a few
behind a leading axis of one entry."""

NAMES = ("positive", "negative")
"""How an axis is named: from the front, or from the back."""

MANY = 259

SHORT = 2
"""The longest axis beside which there are many slices."""

SQUARE = (8, 9, 31, 33)
"""The extents of axes beside which there are as many slices."""


def place_is_its_own(rank: int, place: str) -> bool:
    """Of one axis the only place is the last, and of two none is a middle one."""
    return place == "last" or rank > 2 or (rank == 2 and place == "first")


def many_lie_beside_short_ones(rows: str, rank: int, extent: int) -> bool:
    """Many slices need an axis beside the other, and cost too much where that is long."""
    fits = {"many": extent <= SHORT, "square": extent in SQUARE, "behind one": rank > 2}
    return rows == "few" or (rank > 1 and fits[rows])


def one_entry_leads_where_the_other_axis_does_not(rows: str, place: str) -> bool:
    """An axis of one entry leads alone."""
    return rows != "behind one" or place != "first"


def around(levels: Levels, most: int = 600, beside: int = 1) -> tuple[Shape, int]:
    """Return a shape with an axis of some extent at some place, and where that is.

    The other axes hold more than ENOUGH entries with it, and at least so many without it, as long
    as the whole has at most so many. A place may be the number of an axis, and rows may be how many
    slices there are, the extents of the other axes, or "alike" where all have the same extent.
    """
    rank, extent, rows = levels["rank"], levels["extent"], levels.get("rows")
    place: Any = levels.get("place", "last")
    names: dict[Any, int] = {"first": 0, "middle": rank // 2, "last": max(rank - 1, 0)}
    axis: int = names.get(place, place)
    if not rank:
        return (), axis
    if rows == "alike":
        return (extent,) * rank, axis
    if isinstance(rows, int) and rank > 1:
        rows = (rows, *(1 for _ in range(rank - 2)))
    if isinstance(rows, tuple):
        return (*rows[:axis], extent, *rows[axis:]), axis
    others = [(3, 2, 1, 2, 3)[k] for k in range(rank - 1)]
    for k in range(rank - 1):
        if math.prod(others[: k + 1]) * extent > most:
            others[k] = 1
    if others and levels.get("rows") == "many":
        others = [MANY, *(1 for _ in others[1:])]
    elif others and levels.get("rows") == "square":
        others = [extent, *(1 for _ in others[1:])]
    elif len(others) > 1 and levels.get("rows") == "behind one":
        wanted = max(-(-(ENOUGH + 1) // extent), beside)
        others = [1, max(2, min(wanted, max(most // extent, 2))), *(1 for _ in others[2:])]
    elif others:
        rest = math.prod(others[1:])
        wanted = max(-(-(ENOUGH + 1) // (rest * extent)), -(-beside // rest))
        others[0] = max(others[0], min(wanted, max(most // (rest * extent), 1)))
    return (*others[:axis], extent, *others[axis:]), axis


def named(axis: int, rank: int, name: str) -> int:
    """Return an axis by its name from the front, or from the back."""
    return axis - rank if name == "negative" else axis


def extent(draw: Draw, most: int, least: int = 1) -> int:
    """Draw one extent between bounds, preferring the neighbours of tiles."""
    choices = [n for n in EXTENTS if least <= n <= most]
    number: int = draw(st.sampled_from(choices or [least]))
    return number


def shape(draw: Draw, least: int, most: int, min_rank: int = 0, max_rank: int = 4) -> Shape:
    """Draw a shape with between least and most elements (least is met by the last axis)."""
    rank: int = draw(st.integers(max(min_rank, 1 if least > 1 else 0), max_rank))
    extents: list[int] = []
    for position in range(rank):
        size = math.prod(extents)
        last = position == rank - 1
        extents.append(extent(draw, max(most // size, 1), -(-least // size) if last else 1))
    order: list[int] = draw(st.permutations(range(rank)))
    return tuple(extents[k] for k in order)


def named_axis(draw: Draw, axis: int, rank: int) -> int:
    """Draw one of the two names of an axis: from the front, or negative from the back."""
    return axis - rank if draw(st.booleans()) else axis
