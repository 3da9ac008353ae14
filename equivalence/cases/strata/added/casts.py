"""Casts: ties of the target that lie beyond every format between, there and back.

What goes back from a format that no page tries, a cotangent of fp64, is for those alone who offer
that format: who computes on other formats need not write it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from equivalence.cases.covering import Levels
from equivalence.cases.strata.added.wishes import Wish, Wishing
from equivalence.dtypes import DTYPES
from spec.op import Op


def casts(wishing: Wishing) -> Iterator[Wish]:
    """Wish for numbers that a second rounding rounds the other way, to every format."""
    if not wishing.op.converts or wishing.direction == "jvp":
        return
    back = wishing.direction == "vjp"
    tensor = "seed_regime" if back else "regime_0"
    for to in DTYPES if back else wishing.op.tried["to"]:
        shape = {"rank": 2, "extent": 33, "rows": 3}
        yield Wish({**shape, "to": to, tensor: "nearly_ties"}, everywhere=True)


def offered(op: Op, levels: Levels, dtypes: Sequence[str]) -> bool:
    """Say whether a cast is to a format that the page tries, or that a backend computes on."""
    return not op.converts or levels["to"] in (*op.tried["to"], *dtypes)
