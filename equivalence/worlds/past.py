"""The last step of a number, storage, and what its past says about other orders of its steps."""

from __future__ import annotations

from equivalence.worlds.balls import Arb
from equivalence.worlds.grid import ONE, ZERO, spread
from equivalence.worlds.number import GENERIC, Bounded, opened
from equivalence.worlds.storage import narrowly, saved, slack


@saved.register(Bounded)
def stored(x: Bounded) -> Bounded:
    """Round to the storage format: the last step of every result.

    The ball of the page's own steps stays in `strict`, beside that of the contract's freedom in w.
    """
    arithmetic, depth = x.arithmetic, x.depth
    if not stays(x, arithmetic.contract.compute.max_finite):
        return opened(x.v, arithmetic)
    page = arithmetic.stored(x.ball, x.exact)
    w = page
    if arithmetic.stable and depth >= GENERIC:
        floor = arithmetic.floor(depth, magnitude(x), _near(x))
        w = arithmetic.stored(x.ball.union(x.v + floor), False)
    elif arithmetic.stable and _reordered(x) and arithmetic.may_underflow(x.v):
        # Scaled in another order, what is scaled exactly here may be subnormal in between.
        w = arithmetic.stored(x.ball + arithmetic.floor(GENERIC, ZERO, _near(x)), False)
    return Bounded(x.v, w, arithmetic, page, GENERIC, x.last)


def _reordered(x: Bounded) -> bool:
    """Whether a number that is promised exactly has another order of steps, which may round."""
    return bool(x.depth) or (type(x.made) is tuple and len(_factors(x)) > 2)


@narrowly.register(Bounded)
def _narrowly(total: Bounded, size: Bounded, count: int) -> Bounded:
    format = total.arithmetic.contract.store
    reach: Arb = size.ball.abs_upper()
    off = slack(format, count) * reach + count * 2.0**format.least_exponent
    if not reach + off <= format.max_finite:
        return opened(total.v, total.arithmetic)
    return Bounded(total.v, total.ball + spread(off), total.arithmetic)


def either(x: Bounded, y: Bounded) -> Bounded:
    """Allow what two programs of one page may store; x is the page's own."""
    if not x.v.overlaps(y.v):
        raise ValueError(f"a form is another program of its page: it gives {y}, the page {x}")
    return hull(x, y)


def hull(x: Bounded, y: Bounded) -> Bounded:
    """Allow what either may be; the exact value is that of x."""
    within = y.exact and not y.unconstrained and x.v.overlaps(y.v)
    return Bounded(x.v, x.w if within else x.w.union(y.w), x.arithmetic, x.strict)


def magnitude(of: Bounded) -> Arb:
    """Return the largest term of the last sum, scaled by the factors that came after it.

    `last` holds the terms of a sum; the two numbers of a product, and of a quotient, which has a
    third item; or nothing, where |v| will do.
    """
    last = of.last
    if last is None:
        return abs(of.v)
    if type(last) is tuple:
        x, y, *inverted = last
        one, two = magnitude(x), magnitude(y)
        if inverted:
            return one.max(two * abs(x.v / y.v)) / abs(y.v)
        return (one * abs(y.v)).max(two * abs(x.v))
    largest = ZERO
    for term in last:
        largest = largest.max(abs(term))
    return largest


def _near(x: Bounded) -> Arb:
    """Return the gain of a number near enough to 0 that what underflow loses may count."""
    return gain(x) if x.arithmetic.is_small(x.v) else ONE


def stays(x: Bounded, largest: float) -> bool:
    """Whether the factors of a number stay below the largest one, in whatever order they meet.

    Two have one order, and a contract that is not stable asks for the page's own.
    """
    if not x.arithmetic.stable or type(x.made) is not tuple:
        return True
    factors = _factors(x)
    if len(factors) < 3:
        return True
    reach = 1.0
    for factor in factors:
        reach *= max(1.0, float(factor.abs_upper()))
    return reach <= largest


def gain(of: Bounded) -> Arb:
    """Return by how much factors may enlarge what underflow loses, whatever their order.

    Where factors are multiplied in another order, the two smallest of them may underflow first, and
    all that are larger than 1 come after. A sum has what the worst of its terms has; where one is
    multiplied or divided, each of its terms may have been instead, and underflow.
    """
    if type(of.made) is list:
        return max((gain(term) for term in of.made[:2]), key=float)
    sizes = sorted(map(abs, _factors(of)), key=float)
    found = ONE
    for size in sizes[2:]:
        found = found * size.max(ONE)
    return found.max(_distributed(of))


def _distributed(of: Bounded) -> int:
    """Return how many terms the longest sum has that is a factor; without one, 1."""
    if type(of.made) is tuple:
        return max(_distributed(factor) for factor in of.made[:2])
    return 1 if of.terms is None else of.terms.number


def never_negative(x: Bounded) -> bool:
    """Whether no program gives a number below 0: of squares, products and sums of such numbers."""
    if x.w.is_finite() and x.w >= 0:
        return True
    if x.made is None:
        return False
    one, two, *other = x.made
    if type(x.made) is list and other:
        return False
    squared = one is two and type(x.made) is tuple
    return squared or (never_negative(one) and never_negative(two))


def _factors(of: Bounded) -> list[Arb]:
    """Return the factors of a product, quotients among them; a number is one of itself."""
    if type(of.made) is not tuple:
        return [of.v]
    x, y, *inverted = of.made
    if not inverted:
        return [*_factors(x), *_factors(y)]
    product = type(y.made) is tuple and len(y.made) == 2
    return [*_factors(x), *(ONE / factor for factor in (_factors(y) if product else [y.v]))]
