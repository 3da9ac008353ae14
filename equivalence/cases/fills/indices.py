"""The integers of an index tensor, and the truth values of a mask."""

from __future__ import annotations

import math
import random

from equivalence.cases.fills.entries import Shape, source
from spec.op import Integers

MASK_REGIMES: dict[str, float] = {
    "truths": 0.5,
    "all_true": 1.0,
    "all_false": 0.0,
    "few_true": 0.1,
}
"""How probable it is that an entry of a mask is true."""

INDEX_REGIMES = ("indices", "repeated", "ends", "some_ignored", "all_ignored")


def fill_indices(
    regime: str, seed: int, position: str, shape: Shape, allowed: Integers
) -> list[int]:
    """Return the integers of one index tensor, row-major, all of them in range."""
    if regime not in INDEX_REGIMES:
        raise ValueError(f"unknown index regime {regime!r}; known: {', '.join(INDEX_REGIMES)}")
    count = math.prod(shape)
    rng = source(seed, position)
    if regime == "all_ignored" and allowed.also:
        return [_other(rng, allowed) for _ in range(count)]
    return [_index(rng, regime, allowed) for _ in range(count)]


def fill_mask(regime: str, seed: int, position: str, shape: Shape) -> list[int]:
    """Return the truth values of one mask, row-major, as 0 and 1."""
    if regime not in MASK_REGIMES:
        raise ValueError(f"unknown mask regime {regime!r}; known: {', '.join(MASK_REGIMES)}")
    rng = source(seed, position)
    return [int(rng.random() < MASK_REGIMES[regime]) for _ in range(math.prod(shape))]


def _index(rng: random.Random, regime: str, allowed: Integers) -> int:
    first: int = allowed.lowest
    last: int = allowed.highest
    if regime == "some_ignored" and allowed.also and rng.random() < 0.3:
        return _other(rng, allowed)
    if regime == "repeated":
        return min(first + rng.choice((0, 0, 1)), last)
    if regime == "ends":
        return rng.choice((first, last))
    return rng.randint(first, last)


def _other(rng: random.Random, allowed: Integers) -> int:
    """Draw one of those that are allowed beside the interval; one alone is not drawn for."""
    return allowed.also[0] if len(allowed.also) == 1 else rng.choice(allowed.also)
