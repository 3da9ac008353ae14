"""Orders of axes in memory: those of four axes and more that are no layouts of a design."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from equivalence.cases.families.meeting import SEEDS
from equivalence.cases.guard import LAYOUTS, ORDERS
from equivalence.cases.strata.added.wishes import Wish, Wishing

BESIDE = {2: (4,), 3: (4, 3), 4: (2, 3, 2), 5: (2, 3, 2, 2), 6: (2, 2, 3, 2, 2)}
"""The extents beside an axis of 5, or of 3 where there are many: no axis is of one entry."""

TURNED = tuple(LAYOUTS[LAYOUTS.index("transposed") : LAYOUTS.index("expanded")])
"""The orders that are layouts of a design."""


def orders(wishing: Wishing) -> Iterator[Wish]:
    """Wish for every order of the axes in every tensor: of two and three axes, then of more."""
    for rank, beside in BESIDE.items():
        among = TURNED if rank < 4 else (*TURNED, *ORDERS) if rank == 4 else ORDERS
        for turn in range(len(among)):
            for shape in _shapes(wishing, rank, beside):
                yield Wish({**shape, **_layouts(wishing, among, turn)})


def _shapes(wishing: Wishing, rank: int, beside: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    structure = wishing.structure
    if wishing.has_long_axis:
        if rank in structure["rank"]:
            none = {"repeated": "none"} if "repeated" in structure else {}
            yield {"rank": rank, "extent": 5 if rank < 5 else 3, "rows": beside, **none}
    elif rank == 4 and "rest" in structure:
        yield {"rows": 2, "classes": 5, "rest": (2, 3)}
    elif rank == 4 and "leading" in structure:
        yield {**dict.fromkeys(wishing.extents, 3), "leading": (2, 3, 2), "rows": 12}
    elif rank == 4 and "diagonal" in structure:
        yield {"rank": 4, "rows": 3, "columns": 4, "lead": (2, 3)}


def _layouts(wishing: Wishing, among: tuple[str, ...], turn: int) -> dict[str, str]:
    """Return a layout for each tensor, each the next in turn."""
    inputs = 2 if wishing.op.variadic else len(wishing.op.inputs)
    found = {f"layout_{k}": among[(turn + k) % len(among)] for k in range(inputs)}
    if wishing.direction in SEEDS:
        found["seed_layout"] = among[(turn + inputs) % len(among)]
    return found
