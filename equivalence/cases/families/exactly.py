"""Small calls that are computed exactly: extents from 0 to 3, drawn so that a failing one shrinks.

The laws of a page hold of every call, so those are drawn that a reader can follow.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from equivalence.cases.families.signatures import Draw, Shape, Signature
from spec.op import Op

FEW_EXTENTS = st.sampled_from([2, 3, 1, 2, 3, 0])
"""Extents, seldom 0."""

SHAPES = st.integers(0, 3).flatmap(lambda rank: st.tuples(*[FEW_EXTENTS] * rank))

WITH_AXES = SHAPES.filter(lambda shape: len(shape) > 0)

Small = Callable[[Draw, Op], Signature]
"""Draws the structure of a small call."""


def an_axis(draw: Draw, rank: int) -> int:
    """Draw an axis by one of its two names."""
    return int(draw(st.integers(-rank, rank - 1)))


def some_axes(draw: Draw, rank: int) -> tuple[int, ...] | None:
    """Draw distinct axes by either name, in any order; None stands for all of them."""
    if draw(st.integers(0, 3)) == 0:
        return None
    picked: list[int] = draw(st.lists(st.integers(0, max(rank - 1, 0)), unique=True, max_size=rank))
    return tuple(axis - rank if draw(st.booleans()) else axis for axis in picked)


def leading(draw: Draw, most: int) -> Shape:
    """Draw up to so many axes that come before the others."""
    found: Shape = draw(st.lists(st.integers(0, 2), max_size=most).map(tuple))
    return found
