"""Caches: calls of the same shapes that come right after calls with other attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from equivalence.cases.call import OTHERWISE
from equivalence.cases.strata.added.otherwise import doubled
from equivalence.cases.strata.added.wishes import Wish, Wishing


def callings(wishing: Wishing) -> Iterator[Wish]:
    """Wish for a call that comes after others of its shapes; squares take most other axes.

    Of an attribute that is a list of words and numbers, such as the steps of a chain, the same
    words come with other numbers, too.
    """
    shape: dict[str, Any] = {}
    if wishing.has_long_axis:
        shape = {"rank": 2, "extent": 9, "rows": "alike"}
    yield Wish({**shape, "calling": OTHERWISE}, everywhere=True)
    for name, (level, *_) in wishing.op.tried.items():
        if isinstance(level, tuple):
            told = {name: doubled(level), "calling": OTHERWISE}
            yield Wish({**shape, **told}, everywhere=True)
