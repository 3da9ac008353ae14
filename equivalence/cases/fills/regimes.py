"""Value regimes: the named ways in which a case fills a tensor with numbers.

A regime is a function from a random source and a shape to Python floats (or ints, for indices), in
row-major order, as far as the dtype's `Reach` goes.  Every regime is deterministic in the text seed
it receives, so a case that is a few words long always denotes the same numbers.  The numbers are
rounded to the case's dtype afterwards: what a backend receives is what the oracle lifts.
"""

from __future__ import annotations

import math

from equivalence.cases.fills import entries
from equivalence.cases.fills.entries import Fill, Shape, each, source
from equivalence.cases.fills.rows import BY_ROWS, alone, constant, one_hot
from equivalence.cases.fills.ties import nearly_ties
from equivalence.cases.fills.turns import BY_TURNS, in_turns
from equivalence.dtypes import FAR, Reach

REGIMES: dict[str, Fill] = {
    "integers": each(entries.integer),
    "units": each(entries.unit),
    "normal": each(entries.normal),
    "mixed": each(entries.mixed),
    "offset": each(entries.offset),
    "zeros": each(entries.sparse),
    "ties": each(entries.tie),
    "kinks": each(entries.kink),
    "constant": constant,
    "logits": each(entries.logit),
    "tiny": each(entries.tiny),
    "nonzero_integers": each(entries.nonzero_integer),
    "nonzero": each(entries.nonzero),
    "nonzero_mixed": each(entries.nonzero_mixed),
    "positive_integers": each(entries.positive_integer),
    "positive": each(entries.positive),
    "near_one": each(entries.near_one),
    "past_minus_one": each(entries.past_minus_one),
    "positive_mixed": each(entries.positive_mixed),
    "factors": each(entries.factor),
    "mixed_zeros": each(entries.mixed_zeros),
    "one_hot": one_hot,
    "small": each(entries.small),
    "nothing": each(entries.nothing),
    "signed_zeros": each(entries.signed_zero),
    "smallest": each(entries.smallest),
    "subnormal": each(entries.subnormal),
    "roots": each(entries.root),
    "largest": BY_ROWS["largest"],
    "special_alone": alone,
    **BY_ROWS,
    "nearly_ties": nearly_ties,
}
"""Plainest first, which is the order in which cases shrink."""

ENDS = ("signed_zeros", "smallest", "subnormal", "roots", "largest")
"""The regimes of finite numbers at the ends of a format."""

NONFINITE = (*ENDS, "special_alone", "special_in_rows", "opposite", "impossible")
"""The regimes of what is not finite, or just so: NaN, the infinities, and where a format ends."""

VANISHING = ("tiny",)
"""The regimes of numbers whose squares are 0: who squares them has lost them, and may say so."""

EVERY = "every"
"""Every number of a format, those at its ends among them: a large case's regime."""


def fill(
    regime: str, seed: int, position: str, shape: Shape, reach: Reach = FAR, axis: int = -1
) -> list[float]:
    """Return the numbers of one tensor, row-major, before rounding to a dtype.

    axis is that of the rows, where a regime is one of rows.
    """
    if regime not in REGIMES and regime not in BY_TURNS:
        known = ", ".join((*REGIMES, *BY_TURNS))
        raise ValueError(f"unknown value regime {regime!r}; known: {known}")
    rng = source(seed, position)

    def filled(shape: Shape) -> list[float]:
        if regime in BY_TURNS:
            return in_turns(BY_TURNS[regime], rng, seed, shape, reach)
        return REGIMES[regime](rng, shape, reach)

    by_rows = regime in BY_ROWS or regime in BY_TURNS
    if not by_rows or not shape or axis % len(shape) == len(shape) - 1:
        return filled(shape)
    axis %= len(shape)
    outer, length = math.prod(shape[:axis]), shape[axis]
    inner = math.prod(shape[axis + 1 :])
    rows = filled((outer * inner, length))
    # rows lie one behind the other; the entries of a column of rows lie so in the tensor.
    blocks = (rows[b * inner * length : (b + 1) * inner * length] for b in range(outer))
    return [number for block in blocks for k in range(length) for number in block[k::length]]
