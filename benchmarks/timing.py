"""Two ways of doing one thing, timed in turn so that a slow moment of the machine hits both."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from statistics import median
from time import perf_counter

Action = Callable[[], object]


def seconds(action: Action, calls: int) -> float:
    """The mean time of one call, over so many."""
    start = perf_counter()
    for _ in range(calls):
        action()
    return (perf_counter() - start) / calls


def enough(action: Action, least: float = 0.01) -> int:
    """How many calls take at least so many seconds; warms the action up on the way."""
    calls = 1
    while seconds(action, calls) * calls < least:
        calls *= 2
    return calls


def paired(ours: Action, theirs: Action, pairs: int) -> tuple[float, float, float]:
    """Time both in turn; return the median ratio of a pair and the two median times.

    Each second pair is timed in the other order, so that neither always follows the other.
    """
    calls = max(enough(ours), enough(theirs))
    ratios, first, second = [], [], []
    for turn in range(pairs):
        if turn % 2:
            b, a = seconds(theirs, calls), seconds(ours, calls)
        else:
            a, b = seconds(ours, calls), seconds(theirs, calls)
        ratios.append(a / b)
        first.append(a)
        second.append(b)
    return median(ratios), median(first), median(second)


def made_in_turn(
    ours: Callable[[], Action], theirs: Callable[[], Action], pairs: int
) -> tuple[float, float, float]:
    """`paired` twice, with ours made first and with theirs: the geometric means of both.

    Where an action is bound by memory, that made first takes up to 1.06 of the other's time, though
    both be one and the same: their arrays lie elsewhere. So each is first once.
    """
    ratio, own, other = paired(ours(), theirs(), pairs)
    inverse, other_first, own_second = paired(theirs(), ours(), pairs)
    return sqrt(ratio / inverse), sqrt(own * own_second), sqrt(other * other_first)
