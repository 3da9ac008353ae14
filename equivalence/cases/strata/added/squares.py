"""Squares of every rank: equal extents, along which a wrong axis passes every check of shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from equivalence.cases.strata.added.wishes import Wish, Wishing

SIDES = {2: 9, 3: 4, 4: 3, 5: 2, 6: 2}
"""The extent of the axes by their number."""

EACH_WAY = 4
"""Up to so many axes, each is kept both ways; of more, one after the other."""

SHAPED = ("rank", "place", "extent", "rows", "name", "keepdims", "length", "indices", "inputs")
"""Factors that are no ways in which a square is called."""


def squares(wishing: Wishing) -> Iterator[Wish]:
    """Wish for squares of every rank, along each axis, and in each way of being called."""
    if wishing.has_long_axis:
        yield from _along_each_axis(wishing)
    elif wishing.extents:
        yield from _by_extents(wishing)


def _along_each_axis(wishing: Wishing) -> Iterator[Wish]:
    structure = wishing.structure
    kept = structure.get("keepdims", (None,))
    for rank, side in SIDES.items():
        if rank not in structure["rank"]:
            continue
        square: dict[str, Any] = {"rank": rank, "extent": side, "rows": "alike"}
        if "indices" in structure:
            square["indices"] = (side,)
        if "length" in structure and isinstance(structure["length"][0], int):
            square["length"] = side
        for axis in range(rank) if "place" in structure else (0,):
            for turn, keepdims in enumerate(kept):
                if rank > EACH_WAY and turn != axis % len(kept):
                    continue
                told = {} if keepdims is None else {"keepdims": keepdims}
                yield Wish({**square, "place": axis, **told})
        if rank <= EACH_WAY:
            yield from (Wish({**square, "place": 0, **way}) for way in _ways(wishing))


def _ways(wishing: Wishing) -> Iterator[dict[str, Any]]:
    """Yield every level, but for the plainest, of what says how a call is made."""
    for name, levels in wishing.structure.items():
        if name not in SHAPED and name not in wishing.op.tried:
            yield from ({name: level} for level in levels[1:])


def _by_extents(wishing: Wishing) -> Iterator[Wish]:
    structure, side = wishing.structure, 8
    square: dict[str, Any] = dict.fromkeys(wishing.extents, side)
    if "batch" in structure:
        square = dict.fromkeys(("batch", *wishing.extents), SIDES[3])
    if "groups" in square:
        square |= {"groups": 2, "size": side // 2}
    shapes: dict[str, tuple[Any, ...]] = {
        "rest": ((), (4,), (3, 3)),
        "indices": ((side,), (side, side)),
        "leading": structure.get("leading", ()),
        "diagonal": structure.get("diagonal", ()),
        "reduction": structure.get("reduction", ()),
    }
    ways = [{name: way} for name, ways in shapes.items() if name in structure for way in ways]
    for way in ways or [{}]:
        if rest := way.get("rest"):
            yield Wish({**dict.fromkeys(wishing.extents, rest[0]), **way})
        else:
            yield Wish({**square, **way})
    if "rank" in structure:
        # What lies behind leading axes is as long as these.
        for rank in (3, 4):
            side = SIDES[rank]
            yield Wish({"rank": rank, "rows": side, "columns": side, "lead": (side,) * (rank - 2)})
