"""What the ops that move data share: where a long axis lies, and when a move shows."""

from __future__ import annotations

import math

from equivalence.cases.covering import Factors
from equivalence.cases.families.family import Call
from equivalence.cases.families.shapes import PLACES, RANKS
from equivalence.cases.guard import core_shape

PLACED: Factors = {
    "rank": RANKS,
    "place": PLACES,
    "extent": (33, 1, 2, 8, 9, 31, 64, 65, 128, 257, 1025),
}


def one_number_moves_nowhere(call: Call) -> bool:
    """Where all entries are one number, its copies are equal."""
    one = math.prod(core_shape(call.shapes[0], call.levels.get("layout_0", "contiguous"))) == 1
    return call.direction != "value" or len(call.shapes) > 1 or not one
