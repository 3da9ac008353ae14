"""By how much the factors of a number may enlarge what underflows in another order of its steps."""

from __future__ import annotations

from typing import Any

from equivalence.worlds.balls import Arb
from equivalence.worlds.grid import ONE
from equivalence.worlds.number import Bounded


def gain(of: Bounded) -> Arb:
    """Return by how much factors may enlarge a loss by underflow, in any order.

    In another order, the two smallest factors may meet first, and their product may underflow. All
    factors larger than 1 then enlarge this loss. The gain of a sum is the gain of its worst term.
    If a sum is multiplied or divided, another program may multiply or divide each term instead,
    and each of them may underflow. If a term of a sum is a quotient, another program may bring
    the sum to a common denominator (`_cleared`).
    """
    if type(of.made) is list:
        return max((gain(term) for term in of.made[:2]), key=float)
    cleared = _cleared(of)
    sizes = [abs(factor) for factor in factors_of(of)]
    if cleared > ONE:
        sizes.append(ONE / cleared)
    found = ONE
    for size in sorted(sizes, key=float)[2:]:
        found = found * size.max(ONE)
    return found.max(_distributed(of)) * cleared


def _cleared(of: Bounded) -> Arb:
    """Return by how much the divisors of terms may enlarge a loss by underflow, at least by 1.

    For x / (y / r + z) another program takes r x / (y + r z), and (y + r z) x / r for
    (y / r + z) x. So r is one more factor, and a division by r makes larger what underflows in a
    product with it.
    """
    most = ONE
    left: list[Any] = [of] if type(of.made) is tuple else []
    while left:
        made = left.pop().made
        if type(made) is tuple:
            left.extend(made[:2])
        elif type(made) is list:
            for term in made[:2]:
                if type(term.made) is tuple and len(term.made) > 2:
                    size = abs(term.made[1].v)
                    most = most.max(ONE / size) if size > 0 else most
    return most


def _distributed(of: Bounded) -> int:
    """Return the number of terms of the longest sum among the factors. Without a sum it is 1."""
    most = 1
    left: list[Any] = [of]
    while left:
        one = left.pop()
        if type(one.made) is tuple:
            left.extend(one.made[:2])
        elif one.terms is not None:
            most = max(most, one.terms.number)
    return most


def factors_of(of: Bounded) -> list[Arb]:
    """Return the factors of a product or quotient. Any other number is its own only factor."""
    found: list[Arb] = []
    left: list[Any] = [of]
    while left:
        one = left.pop()
        if type(one.made) is not tuple:
            found.append(one.v)
            continue
        x, y, *inverted = one.made
        left.append(x)
        if not inverted:
            left.append(y)
        else:
            product = type(y.made) is tuple and len(y.made) == 2
            found.extend(ONE / factor for factor in (factors_of(y) if product else [y.v]))
    return found
