"""Casts: ties of the target that lie beyond every format between."""

from __future__ import annotations

from collections.abc import Iterator

from equivalence.cases.strata.added.wishes import Wish, Wishing


def casts(wishing: Wishing) -> Iterator[Wish]:
    """Wish for numbers that a second rounding rounds the other way, to every format."""
    if not wishing.op.converts or wishing.direction != "value":
        return
    for to in wishing.op.tried["to"]:
        shape = {"rank": 2, "extent": 33, "rows": 3}
        yield Wish({**shape, "to": to, "regime_0": "nearly_ties"}, everywhere=True)
