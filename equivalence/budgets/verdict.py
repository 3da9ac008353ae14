"""Verdicts: how far a tensor is from the truth, as fractions of its budgets.

The rule is per element: fraction = |got - exact| / budget, 0/0 = 0, positive/0 = infinite, and a
result that is not finite where a finite one is due is infinitely wrong.
A fraction above 1 is a defect; norms decide nothing.
Elements that the contract leaves unconstrained are counted, and more than 5 % of them make a
verdict ambiguous.

Nothing here needs python-flint: recorded expectations are judged by the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["conformant", "nonconformant", "ambiguous", "vacuous"]
Shape = tuple[int, ...]

MOST_UNCONSTRAINED = 0.05
"""The largest share of unconstrained elements that still makes a verdict."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one tensor.

    worst_fraction    the largest fraction of a budget, None where nothing was judged
    first_bad_index   the first element over budget, None where there is none
    index             that element, or else the worst one; got, exact and budget are its own
    judged            how many elements had a budget; unconstrained: how many had none
    bad               how many elements were over budget
    reason            what is wrong with the tensor as a whole, if anything
    """

    worst_fraction: float | None
    first_bad_index: Shape | None = None
    index: Shape | None = None
    got: float | None = None
    exact: str | None = None
    budget: float | None = None
    judged: int = 0
    unconstrained: int = 0
    bad: int = 0
    reason: str = ""

    @property
    def status(self) -> Status:
        """The verdict in one word."""
        if self.bad or self.reason:
            return "nonconformant"
        total = self.judged + self.unconstrained
        if self.unconstrained > MOST_UNCONSTRAINED * total:
            return "ambiguous"
        return "conformant" if self.judged else "vacuous"


@dataclass(frozen=True, slots=True)
class Element:
    """One element, as a report shows it."""

    got: float
    exact: str
    budget: float


def mismatch(reason: str) -> Verdict:
    """Return the verdict on a tensor of the wrong shape or dtype."""
    return Verdict(math.inf, reason=reason)


def decide(
    fractions: Sequence[float | None], shape: Shape, element: Callable[[int], Element]
) -> Verdict:
    """Turn fractions in row-major order, None where unconstrained, into a verdict."""
    known = [(fraction, k) for k, fraction in enumerate(fractions) if fraction is not None]
    unconstrained = len(fractions) - len(known)
    if not known:
        return Verdict(None, unconstrained=unconstrained)
    bad = [k for fraction, k in known if not fraction <= 1.0]
    worst, where = max(known, key=lambda pair: pair[0])
    shown = bad[0] if bad else where
    found = element(shown)
    return Verdict(
        worst_fraction=worst,
        first_bad_index=position(bad[0], shape) if bad else None,
        index=position(shown, shape),
        got=found.got,
        exact=found.exact,
        budget=found.budget,
        judged=len(known),
        unconstrained=unconstrained,
        bad=len(bad),
    )


def position(flat: int, shape: Shape) -> Shape:
    """Return the index of an element from its place in row-major order.

    >>> position(5, (2, 3))
    (1, 2)
    """
    index = []
    for extent in reversed(shape):
        flat, k = divmod(flat, extent)
        index.append(k)
    return tuple(reversed(index))


def merged(verdicts: Iterable[Verdict]) -> Verdict:
    """Return one verdict on several tensors: their counts, and the worst of their elements."""
    every = list(verdicts)
    judged = [v for v in every if v.worst_fraction is not None]
    worst = max(judged, key=lambda v: v.worst_fraction or 0.0, default=Verdict(None))
    return Verdict(
        worst_fraction=worst.worst_fraction,
        first_bad_index=worst.first_bad_index,
        index=worst.index,
        got=worst.got,
        exact=worst.exact,
        budget=worst.budget,
        judged=sum(v.judged for v in every),
        unconstrained=sum(v.unconstrained for v in every),
        bad=sum(v.bad for v in every),
        reason="; ".join(v.reason for v in every if v.reason),
    )
