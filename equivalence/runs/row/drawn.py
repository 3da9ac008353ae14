"""Drawn cases: how many a row wants, and batches of them from Hypothesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from equivalence.cases.covering import SINGLES
from equivalence.cases.declared.inside import narrowing
from equivalence.runs.kinds import Case, Kind

DRAWN = 8
"""Beside a design of pairs or more, so many drawn cases must count."""

BATCHES = 8
"""How many batches are drawn at most."""


def least(counted: int, fixed: int, strength: int) -> int:
    """Return how many cases of a row must count in all, where so many of its fixed cases do."""
    return max(counted, fixed + (DRAWN if strength > SINGLES else 0))


def nearly_all(refused: Counter[str]) -> str:
    """Say that too few cases were left of the drawn ones, and why the page refuses most others."""
    ((said, _),) = refused.most_common(1)
    return f"the page refuses {refused.total()} drawn calls, too many to go on; mostly: {said}"


def portions(cases: Sequence[Case]) -> Iterator[Sequence[Case]]:
    """Yield the cases of a batch in parts, since few of them are wanted where preparing is dear."""
    for start in range(0, len(cases), 2 * DRAWN):
        yield cases[start : start + 2 * DRAWN]


def first_drawn(
    kind: Kind, fixed: Sequence[Case], counted: int, seed: int, strength: int
) -> Sequence[Case]:
    """Return the cases that a row draws first, if it wants any beside the fixed ones."""
    if least(counted, len(fixed), strength) <= len(fixed):
        return ()
    first = next(drawn_batches(kind, fixed, counted, seed, lambda: False), [])
    return next(portions(first), ())


def drawn_batches(
    kind: Kind, fixed: Sequence[Case], counted: int, seed: int, enough: Callable[[], bool]
) -> Iterator[list[Case]]:
    """Draw batches of cases until there are enough; no case is met twice, or is a fixed one.

    The drawing stops before a batch that nobody wants, as it takes longer than many a row.
    """
    from equivalence.cases.strategies import draw_many

    strategy = kind.drawn()
    seen = set(fixed)
    for batch in range(BATCHES):
        if enough():
            return
        fresh = [
            case for case in draw_many(strategy, 2 * counted, seed + batch) if case not in seen
        ]
        if not fresh and narrowing(getattr(kind, "inside", None)) is not None:
            return  # Hardly any call lies in the part that the backend takes.
        seen.update(fresh)
        yield fresh
