"""Equal numbers in rows: ties, and several NaNs or infinities, beyond every tile of rows.

Which entry of a row an irregular op follows is told where two of them are equal. A program decides
so for each row, and may decide otherwise in its later blocks of rows, or of entries.
"""

from __future__ import annotations

from collections.abc import Iterator

from equivalence.cases.fills.turns import EQUAL_TURNS
from equivalence.cases.strata.added.specials import SHORT, entries_meet
from equivalence.cases.strata.added.wishes import Wish, Wishing

TILE = 256
"""The largest tile of rows beyond which every pair of equal numbers is met."""

ROWS = TILE + EQUAL_TURNS + 1
"""So many rows have all of them behind a block of 16 to 256 rows, and are no multiple of one."""

LENGTH = 521
"""Behind two blocks of 256 entries there are several."""

CHOOSING = ("irregular", "positions")
"""The kinds of ops whose results depend on which entries are equal."""


def equals(wishing: Wishing) -> Iterator[Wish]:
    """Wish for rows of equal numbers: many rows, along each axis, and rows of several blocks."""
    if wishing.op.kind not in CHOOSING or not wishing.has_long_axis:
        return
    tensor = "regime_0"
    if not entries_meet(wishing, tensor):
        return
    for place in ("last", "first"):
        many = {"rank": 2, "extent": SHORT, "rows": ROWS, "place": place}
        yield Wish({**many, tensor: "equals"}, everywhere=place == "last")
    long = {"rank": 2, "extent": LENGTH, "rows": EQUAL_TURNS + 1, "place": "last"}
    yield Wish({**long, tensor: "equals"})
