"""What became of a tensor, of a case, of a whole program: fractions, counts, and where to look.

The rule is per element: fraction = |got - exact| / budget, 0/0 = 0, positive/0 = infinite, and a
result that is not finite where a finite one is due is infinitely wrong.
A fraction above 1 is a defect; norms decide nothing.
Elements that the contract leaves unconstrained are counted, and too many of them make a verdict
ambiguous.

Nothing here needs python-flint: recorded expectations are judged by the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Status = Literal["conformant", "nonconformant", "ambiguous", "vacuous"]
Shape = tuple[int, ...]

MOST_UNCONSTRAINED = 0.05
"""The largest share of unconstrained elements that still makes a verdict."""


def too_open(judged: int, unconstrained: int) -> bool:
    """Say whether a contract leaves too large a share of the elements unconstrained."""
    return unconstrained > MOST_UNCONSTRAINED * (judged + unconstrained)


@dataclass(frozen=True, slots=True)
class Detail:
    """The first element over budget of the result that is worst; fraction is that result's."""

    result: str
    index: Shape
    got: str
    exact: str
    budget: str
    fraction: float

    def line(self) -> str:
        """Return the element in words."""
        return (
            f"{self.result}{list(self.index)}: got {self.got}, exact {self.exact}, "
            f"budget {self.budget}; worst fraction {self.fraction:.3g}"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of what was judged, one tensor or many.

    fraction   the largest fraction of a budget, None where nothing was judged
    judged     how many elements had a budget; unconstrained: how many had none
    detail     the element to look at, None where none is over budget
    problem    what is wrong with a tensor as a whole, or with what else was done, if anything
    crash      the exception in the place of results, if there was one
    differing  whether the elements of some tensor are not all the same, so that a mistake shows
    """

    fraction: float | None = None
    judged: int = 0
    unconstrained: int = 0
    detail: Detail | None = None
    problem: str | None = None
    crash: str | None = None
    differing: bool = False

    @property
    def failed(self) -> bool:
        """Whether the backend is over budget, or did something that it must not."""
        over = self.fraction is not None and not self.fraction <= 1
        return over or self.problem is not None or self.crash is not None

    @property
    def status(self) -> Status:
        """The verdict in one word."""
        if self.failed:
            return "nonconformant"
        if too_open(self.judged, self.unconstrained):
            return "ambiguous"
        return "conformant" if self.judged else "vacuous"

    def named(self, result: str) -> Outcome:
        """Return the outcome of one tensor with the tensor's name in what it says."""
        detail = None if self.detail is None else replace(self.detail, result=result)
        problem = None if self.problem is None else f"{result}: {self.problem}"
        return replace(self, detail=detail, problem=problem)


def mismatch(problem: str) -> Outcome:
    """Return the outcome for what is wrong as a whole: a shape, a dtype, a count."""
    return Outcome(fraction=math.inf, problem=problem)


def decide(
    fractions: Sequence[float | None], shape: Shape, element: Callable[[int], tuple[str, str, str]]
) -> Outcome:
    """Judge one tensor by its fractions in row-major order, None where unconstrained.

    `element` writes down what an element is, what it is exactly, and its budget.
    """
    known = [(fraction, k) for k, fraction in enumerate(fractions) if fraction is not None]
    unconstrained = len(fractions) - len(known)
    if not known:
        return Outcome(unconstrained=unconstrained)
    bad = [k for fraction, k in known if not fraction <= 1.0]
    worst = max(math.inf if math.isnan(fraction) else fraction for fraction, _ in known)
    detail = Detail("", position(bad[0], shape), *element(bad[0]), worst) if bad else None
    return Outcome(worst, len(known), unconstrained, detail)


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


def merged(*outcomes: Outcome) -> Outcome:
    """Return one outcome of several: their counts, the worst detail, the first problem."""
    fractions = [o.fraction for o in outcomes if o.fraction is not None]
    details = [o.detail for o in outcomes if o.detail is not None]
    return Outcome(
        max(fractions, default=None),
        sum(o.judged for o in outcomes),
        sum(o.unconstrained for o in outcomes),
        max(details, key=lambda detail: detail.fraction, default=None),
        next((o.problem for o in outcomes if o.problem is not None), None),
        next((o.crash for o in outcomes if o.crash is not None), None),
        any(o.differing for o in outcomes),
    )
