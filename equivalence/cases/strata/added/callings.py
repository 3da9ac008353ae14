"""Caches: calls of the same shapes that come right after calls with other attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from equivalence.cases.call import OTHERWISE
from equivalence.cases.strata.added.wishes import Wish, Wishing


def callings(wishing: Wishing) -> Iterator[Wish]:
    """Wish for a call that comes after others of its shapes; squares take most other axes."""
    shape: dict[str, Any] = {}
    if wishing.has_long_axis:
        shape = {"rank": 2, "extent": 9, "rows": "alike"}
    yield Wish({**shape, "calling": OTHERWISE}, everywhere=True)
