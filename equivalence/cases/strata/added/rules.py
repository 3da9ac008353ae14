"""The rules that hold for every row, and the cases that they add to its design."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from equivalence.cases.call import attribute_pairs
from equivalence.cases.covering import PAIRS, SINGLES, Levels
from equivalence.cases.strata.added.callings import callings
from equivalence.cases.strata.added.casts import casts
from equivalence.cases.strata.added.equals import equals
from equivalence.cases.strata.added.lengths import levels, ones, peaks, tails, wide
from equivalence.cases.strata.added.orders import orders
from equivalence.cases.strata.added.specials import specials
from equivalence.cases.strata.added.squares import squares
from equivalence.cases.strata.added.wishes import Wish, Wishing
from equivalence.registry import remembering
from spec.op import Op

Rule = Callable[[Wishing], Iterator[Wish]]

RULES: dict[int, Sequence[Rule]] = {
    SINGLES: (tails, casts, callings),
    PAIRS: (specials, squares, orders, ones, wide, peaks, levels, equals),
}
"""The rules by the strength of the designs from which on their cases are added."""

Added = tuple[int, Levels, bool]
"""The seed of a case, its levels, and whether every dtype has it."""


@remembering
def added(op: Op, direction: str, strength: int) -> tuple[Added, ...]:
    """Return the cases that the rules of a strength add; of equal ones the first."""
    wishing, found = Wishing(op, direction), dict[Any, Added]()
    for rule in RULES.get(strength, ()):
        for wish in rule(wishing):
            levels = wishing.row(wish.levels)
            if levels is not None:
                key = _key(wishing, levels, wish.turn)
                found.setdefault(key, (wish.turn, levels, wish.everywhere))
    return tuple(found.values())


def _key(wishing: Wishing, levels: Levels, turn: int) -> Any:
    """Return what makes a case: its call, and what is said of its tensors."""
    shapes, attributes = wishing.signature(levels)
    recipes = [(n, v) for n, v in levels.items() if "regime" in n or "layout" in n]
    return turn, shapes, attribute_pairs(attributes), tuple(recipes), levels["calling"]
