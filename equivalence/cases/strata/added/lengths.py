"""Lengths: long axes beside one entry, two long axes, and where a row has its largest entry."""

from __future__ import annotations

from collections.abc import Iterator

from equivalence.cases.domains import domain
from equivalence.cases.fills.turns import SPOTS
from equivalence.cases.strata.added.specials import LONG, SHORT, entries_meet, with_rows
from equivalence.cases.strata.added.wishes import Wish, Wishing

LONGER = 1033
"""A row beyond a block of 1,024, whose last entry is not the only one beyond it."""

TILES = (133, 131), (69, 67), (37, 131)
"""Two extents beyond tiles of up to 128, beyond those of up to 64, and one of each class."""

NINE = 9
"""An odd number of rows, beyond a block of them."""

BETWEEN = 33
"""How long the others are, where only one of several extents is 1."""


def ones(wishing: Wishing) -> Iterator[Wish]:
    """Wish for one axis of one entry where another is long, in every role."""
    long = LONG[wishing.direction]
    if wishing.has_long_axis:
        for place in ("last", "first"):
            yield Wish({"rank": 2, "extent": 1, "rows": long, "place": place})
            yield Wish({"rank": 2, "extent": long, "rows": 1, "place": place})
        yield Wish({"rank": 3, "extent": 1, "rows": (BETWEEN, BETWEEN), "place": "middle"})
        yield Wish({"rank": 3, "extent": BETWEEN, "rows": (1, BETWEEN), "place": "first"})
        return
    names = wishing.extents
    for name in names if len(names) > 1 else ():
        yield Wish({**dict.fromkeys(names, 1), name: long})
        if len(names) > 2:
            yield Wish({**dict.fromkeys(names, BETWEEN), name: 1})


def wide(wishing: Wishing) -> Iterator[Wish]:
    """Wish for many rows of many entries: both axes go beyond one tile, with a tail each.

    Products of two long axes are large cases (`equivalence.cases.families.products`).
    """
    if wishing.has_long_axis and "rows" in wishing.structure:
        for extent, rows in TILES:
            for place in ("last", "first"):
                yield Wish({"rank": 2, "extent": extent, "rows": rows, "place": place})


def peaks(wishing: Wishing) -> Iterator[Wish]:
    """Wish for long rows whose largest entry stands at every spot, where entries of a row meet."""
    for tensor in wishing.tensors[:1]:
        if not tensor.startswith("regime_") or not entries_meet(wishing, tensor):
            continue
        if domain(wishing.op, int(tensor.rpartition("_")[2])) != "real":
            continue
        found = with_rows(wishing, tensor, LONGER, rows=2)
        if found is not None:
            for turn in range(0, len(SPOTS), 2):
                yield Wish({**found[0], tensor: "peaks"}, turn, everywhere=SPOTS[turn] == "last")


def levels(wishing: Wishing) -> Iterator[Wish]:
    """Wish for rows at levels far apart, where a number of the row beside overflows or vanishes."""
    for tensor in wishing.tensors[:1]:
        if not tensor.startswith("regime_") or not entries_meet(wishing, tensor):
            continue
        if domain(wishing.op, int(tensor.rpartition("_")[2])) != "real":
            continue
        found = with_rows(wishing, tensor, SHORT, rows=NINE)
        if found is not None and found[1] > 1:
            yield Wish({**found[0], tensor: "levels"}, everywhere=True)


def tails(wishing: Wishing) -> Iterator[Wish]:
    """Wish for a contracted axis that is no multiple of a tile, whose last term weighs most."""
    if "inner" not in wishing.extents and "groups" not in wishing.extents:
        return
    real = [tensor for tensor in wishing.tensors if tensor.startswith("regime_")]
    few = dict.fromkeys(wishing.extents, 3)
    inner = {"groups": 7, "size": 11} if "groups" in few else {"inner": 77}
    yield Wish({**few, **inner, **dict.fromkeys(real, "last_terms")}, everywhere=True)
