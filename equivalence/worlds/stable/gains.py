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
    and each of them may underflow: such a term has the factors of the sum and its own (`_large`).
    If a term of a sum is a quotient, another program may bring the sum to a common denominator
    (`_cleared`).
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
    if _has_sum(of):
        found = found.max(_large(of, {}))
    return found.max(_distributed(of)) * cleared


def _has_sum(of: Bounded) -> bool:
    """Say whether a factor that is multiplied, not divided by, is a sum of two."""
    if type(of.made) is not tuple:
        return type(of.made) is list
    x, y, *inverted = of.made
    return _has_sum(x) or (not inverted and _has_sum(y))


def _is_quotient(of: Bounded) -> bool:
    return type(of.made) is tuple and len(of.made) > 2


def _large(of: Bounded, known: dict[int, Arb]) -> Arb:
    """Return the product of all factors larger than 1 of a number, or of the worst term of a sum.

    The two smallest factors are among them if even they are larger than 1, which costs a little
    where nothing underflows. Of a term that is a quotient its dividend counts: `_cleared` has seen
    its divisor. known holds what was found, as many numbers share their factors.
    """
    found = known.get(id(of))
    if found is not None:
        return found
    if type(of.made) is list:
        dividends = (t.made[0] if _is_quotient(t) else t for t in of.made[:2])
        found = max((_large(term, known) for term in dividends), key=float)
    elif type(of.made) is tuple and len(of.made) == 2:
        found = _large(of.made[0], known) * _large(of.made[1], known)
    elif type(of.made) is tuple:
        found = _large(of.made[0], known)
        for divisor in factors_of(of.made[1]):
            found = found * (ONE / abs(divisor)).max(ONE)
    else:
        found = abs(of.v).max(ONE)
    known[id(of)] = found
    return found


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
                if _is_quotient(term):
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
