"""What the ops share that read or add entries at positions that another input holds."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from equivalence.cases.call import ENOUGH
from equivalence.cases.covering import Factors, Levels
from equivalence.cases.families.exactly import WITH_AXES, an_axis
from equivalence.cases.families.shapes import (
    NAMES,
    PLACES,
    RANKS,
    around,
    named,
    named_axis,
    shape,
)
from equivalence.cases.families.signatures import Draw, Shape, Signature
from spec.op import Op

TAKEN: Factors = {
    "rank": RANKS,
    "place": PLACES,
    "extent": (33, 1, 2, 8, 9, 31, 64, 65, 257),
    "indices": ((7,), (), (1,), (33,), (3, 4), (2, 2, 2), (300,)),
    "name": NAMES,
}
"""The axis that is read along, and the shape of the indices, one of many that meet often."""

MOST_READ = 2400
"""So many entries, at most, are read."""


def beside(levels: Levels) -> int:
    """Return how many entries may lie in the input, so that not too many are read."""
    extent: int = levels["extent"]
    return min(600, max(MOST_READ // math.prod(levels["indices"]), 1) * extent)


def taken(op: Op, direction: str, levels: Levels) -> Signature:
    """Read along an axis; a value is counted by what is read."""
    own, axis = around(levels, beside(levels), -(-ENOUGH // math.prod(levels["indices"])))
    return (own, levels["indices"]), {"axis": named(axis, len(own), levels["name"])}


def in_place(own: Shape, axis: int, indices: Shape) -> Shape:
    """Return a shape with that of the indices in place of an axis."""
    at = axis % len(own)
    return (*own[:at], *indices, *own[at + 1 :])


def draw_take(draw: Draw, op: Op, direction: str) -> Signature:
    """Draw a tensor, and indices along one of its axes."""
    own = shape(draw, ENOUGH, 128, max_rank=3)
    axis: int = draw(st.integers(0, len(own) - 1))
    rest = math.prod(own) // own[axis]
    indices = shape(draw, -(-ENOUGH // rest), 24, max_rank=2)
    return (own, indices), {"axis": named_axis(draw, axis, len(own))}


def small_take(draw: Draw, op: Op) -> Signature:
    """Draw a tensor of small extents, and no indices along an axis without entries."""
    source = draw(WITH_AXES)
    axis = an_axis(draw, len(source))
    least = 1 if source[axis] == 0 else 0
    picked: Shape = draw(st.lists(st.integers(0, 3 - least), max_size=2).map(tuple))
    return (source, picked if source[axis] else (0,)), {"axis": axis}


def has_a_row(shape: Shape) -> bool:
    """Fit what has a first axis with entries."""
    return bool(shape) and shape[0] > 0
