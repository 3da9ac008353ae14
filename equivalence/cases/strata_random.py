"""Fixed strata of the ops that draw: words of 64 bits, and probabilities at both ends.

Their shapes are those of every pointwise op, whose sizes lie beside a tile and are seldom
multiples of four, which is how many elements one block of random words serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equivalence.cases.call import Shape

Signature = tuple[tuple[Shape, ...], dict[str, Any]]

SEEDS = (7, 2**64 - 1, 2**32, 0, 2**63 + 5, 1234567890123456789, 2**32 - 1)
COUNTERS = (0, 2**32 + 1, 2**64 - 1, 1, 2**63)
PROBABILITIES = (0.5, 0.1, 1.0, 0.75, 0.0, 1 / 3, 2.0**-30, 1 - 2.0**-30)


def call(number: int) -> dict[str, Any]:
    """Return the seed and the call counter of a stratum; both have all 64 bits now and then."""
    return {"seed": SEEDS[number % len(SEEDS)], "counter": COUNTERS[number % len(COUNTERS)]}


def draws(shapes: Sequence[Shape]) -> tuple[Signature, ...]:
    """Return the strata of an op that draws a shape."""
    return tuple(((), {"shape": shape, **call(k)}) for k, shape in enumerate(shapes))


def masks(shapes: Sequence[Shape]) -> tuple[Signature, ...]:
    """Return the strata of an op that draws a shape with a probability."""
    return tuple(
        ((), {**attrs, "keep_prob": PROBABILITIES[k % len(PROBABILITIES)]})
        for k, (_, attrs) in enumerate(draws(shapes))
    )


def drops(shapes: Sequence[Shape]) -> tuple[Signature, ...]:
    """Return the strata of dropout, every fifth one without training."""
    return tuple(
        ((shape,), {**call(k), "p": PROBABILITIES[k % len(PROBABILITIES)], "training": k % 5 != 4})
        for k, shape in enumerate(shapes)
    )


NOTHING: tuple[Shape, ...] = ((0,), (), (3, 0, 2))


def tables(shapes: Sequence[Shape]) -> Mapping[str, tuple[Signature, ...]]:
    """Return the strata of every op that draws, over some shapes."""
    return {
        "rand_uniform": draws(shapes),
        "rand_normal": draws(shapes),
        "bernoulli_mask": masks(shapes),
        "dropout": drops(shapes),
    }
