"""Questions to bounded numbers, answered or open, and what `select` takes by their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.balls import UNKNOWN, Arb, Truth
from equivalence.worlds.number import GENERIC, Bounded, constant, opened
from equivalence.worlds.past import magnitude
from spec import scalar
from spec.dual import Dual


class Fork:
    """A question that the declared arithmetic may answer either way.

    value is the answer for the exact value; tainted says that an unconstrained scalar was asked.
    """

    __slots__ = ("arithmetic", "tainted", "value")

    def __init__(self, value: Truth, tainted: bool, arithmetic: Arithmetic) -> None:
        """Hold the answer for the exact value."""
        self.value = value
        self.tainted = tainted
        self.arithmetic = arithmetic

    def __bool__(self) -> bool:
        """Refuse to be read as True or False."""
        raise TypeError("the contract leaves this question open; read it with spec.scalar.select")


class Settled:
    """A question that a stable contract answers in one way; its branches share their depth."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        """Hold the answer."""
        self.value = value

    def __bool__(self) -> bool:
        """Return the answer."""
        return self.value


YES, NO = Settled(True), Settled(False)


@scalar.select.register(Settled)
def _chosen(truth: Settled, first: Any, second: Any) -> Any:
    """Return a branch, which has as many roundings as the other, once it has several.

    Another program may take the choice in the middle, and steps after it for both branches: it
    scales what is below a knee and what is beyond it alike.
    """
    branch = scalar.select(truth.value, first, second)
    other = second if truth.value else first
    if type(branch) is not Bounded or type(other) is not Bounded:
        return branch
    return as_deep_as(branch, other)


def as_deep_as(branch: Bounded, other: Bounded) -> Bounded:
    """Return a branch of several steps with as many roundings as the other, if it has fewer."""
    if not GENERIC <= branch.depth < other.depth:
        return branch
    return Bounded(
        branch.v,
        branch.w,
        branch.arithmetic,
        None,
        other.depth,
        branch.last,
        branch.terms,
        branch.made,
    )


@scalar.select.register(Fork)
def _select(truth: Fork, first: Any, second: Any) -> Any:
    if isinstance(first, Dual) or isinstance(second, Dual):
        (a, s), (b, t) = ((x.value, x.tangent) if isinstance(x, Dual) else (x, 0)
                          for x in (first, second))  # fmt: skip
        return Dual(_select(truth, a, b), _select(truth, s, t))
    arithmetic = truth.arithmetic
    x, y = (
        branch if type(branch) is Bounded else constant(arithmetic, branch)
        for branch in (first, second)
    )
    v = x.v.union(y.v) if truth.value is UNKNOWN else x.v if truth.value else y.v
    if truth.tainted:
        return opened(v, arithmetic)
    if x.exact and y.exact and x.v == y.v:
        return x
    return either_branch(v, x, y, _union)


def either_branch(v: Arb, x: Bounded, y: Bounded, join: Callable[[Arb, Arb], Arb]) -> Bounded:
    """Return one of two numbers, whichever: a move of both."""
    depth = max(x.depth, y.depth, 1)
    strict = join(x.strict, y.strict) if depth < GENERIC else None
    return Bounded(v, join(x.w, y.w), x.arithmetic, strict, depth, [magnitude(x), magnitude(y)])


def _union(a: Arb, b: Arb) -> Arb:
    return a.union(b)
