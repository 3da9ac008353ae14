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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from equivalence.budgets.numerals import shortest
from equivalence.dtypes import DTYPES

Status = Literal["conformant", "nonconformant", "ambiguous", "vacuous"]
Ending = Literal["", "died", "late", "fault"]
Shape = tuple[int, ...]

MOST_UNCONSTRAINED = 0.05
"""The largest share of unconstrained elements that still makes a verdict."""


WIDEST = 1 / 16
"""The largest budget, as a share of the result's largest entry, that says something of an entry."""

MOST_WIDE = 0.5
"""The largest share of entries with wider budgets in a verdict."""


def too_wide(judged: float, wide: float) -> bool:
    """Say whether budgets are so wide, for so many elements, that a verdict would say nothing."""
    return wide > MOST_WIDE * judged


def too_open(judged: float, unconstrained: float) -> bool:
    """Say whether a contract leaves too large a share of the elements unconstrained."""
    return unconstrained > MOST_UNCONSTRAINED * (judged + unconstrained)


@dataclass(frozen=True, slots=True)
class Detail:
    """The worst element of a case, the first of several; fraction is the one that it takes.

    got      what came, as the shortest text that the result's dtype reads back as this number
    exact    the certified value, or each possibility
    budget   the largest error that is allowed
    inputs   names of inputs, or of parts of them, and their numbers: what the element depends on
    common   sentences about what the elements over budget have in common, and no others
    """

    result: str
    index: Shape
    got: str
    exact: str
    budget: str
    fraction: float
    inputs: tuple[tuple[str, str], ...] = ()
    common: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the element in words."""
        return (
            f"{self.result}{list(self.index)}: got {self.got}, exact {self.exact}, "
            f"budget {self.budget}; worst fraction {self.fraction:.3g}"
        )


@dataclass(frozen=True, slots=True)
class Wrong:
    """Which elements of one result had a budget, and which of them were over it."""

    result: str
    judged: npt.NDArray[np.bool_]
    failing: npt.NDArray[np.bool_]


CLASSES = ("nan", "inf", "zero", "subnormal", "finite", "several")
"""What an element is or should be, apart from its sign: finite is a normal number, and several says
that no one number is due."""


def class_of(number: float, dtype: str) -> str:
    """Return the class of a number that is stored in a dtype.

    >>> [class_of(x, "fp32") for x in (0.0, 1e-40, 1.0)]
    ['zero', 'subnormal', 'finite']
    """
    return CLASSES[int(classes_of(np.float64(number), dtype))]


def classes_of(numbers: npt.ArrayLike, dtype: str) -> npt.NDArray[np.int_]:
    """Return the class of each number that is stored in a dtype, as its place in CLASSES."""
    size = np.abs(numbers)
    normal = DTYPES[dtype].store.min_normal if dtype in DTYPES else 0.0
    which = [np.isnan(size), np.isinf(size), size == 0.0, size < normal]
    return np.select(which, range(len(which)), len(which))


@dataclass(frozen=True, slots=True)
class Over:
    """The elements of one result that are over budget in one way: by what they are and should be.

    Elements that have a budget and those whose budget is 0 are told apart.

    ratio      of those that have one, the largest fraction of a budget that they take
    error      of those whose budget is 0 the largest error, relative to the exact value, or as it
               is where that is 0
    """

    result: str
    got: str
    exact: str
    ratio: float = 0.0
    error: float = 0.0
    count: int = 1

    def joined(self, other: Over) -> Over:
        """Return one entry for these elements and others of the same kind."""
        ratio, error = max(self.ratio, other.ratio), max(self.error, other.error)
        return replace(self, ratio=ratio, error=error, count=self.count + other.count)


def over_budget(element: tuple[str, str, str], fraction: float, dtype: str) -> Over:
    """Return the entry of one element, as `decide` is told what it is and should be."""
    got = float(element[0])
    try:
        exact = float(element[1])
    except ValueError:
        over = Over("", class_of(got, dtype), "several")
        inside = math.isfinite(got) and math.isfinite(fraction)
        return replace(over, ratio=fraction) if inside else replace(over, error=math.inf)
    over = Over("", class_of(got, dtype), class_of(exact, dtype))
    if not math.isfinite(got):
        return over
    if math.isfinite(fraction):
        return replace(over, ratio=fraction)
    if not math.isfinite(exact):
        return replace(over, error=math.inf)
    return replace(over, error=abs(got - exact) / (abs(exact) or 1.0))


def grouped(entries: Iterable[Over]) -> tuple[Over, ...]:
    """Join the entries of one result and one kind."""
    found: dict[tuple[str, str, str, bool], Over] = {}
    for entry in entries:
        kind = (entry.result, entry.got, entry.exact, entry.error > 0)
        found[kind] = found[kind].joined(entry) if kind in found else entry
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of what was judged, one tensor or many.

    fraction   the largest fraction of a budget, None where nothing was judged
    judged     how many elements had a budget; unconstrained: how many had none
    wide       how many of those judged had one wider than a sixteenth of the largest entry
    page       the largest fraction of what the page's own steps allow, without further freedom
    detail     the element to look at, None where none is over budget
    problem    what is wrong with a tensor as a whole, or with what else was done, if anything
    crash      the exception in the place of results, or the end of the process, if there was one
    end        of the process: "died", or "late" where a call took longer than the limit; "fault"
               where the exception is one of this suite's own
    over       the elements over budget, by what they are: what a declared finding must cover
    left_out   what of a case was not run, because the backend does not offer it
    differing  whether the elements of some tensor are not all the same, so that a mistake shows
    refused    the words of a NotImplementedError in the place of results, if there was one
    wrong      which elements these are, until the outcome is explained
    """

    fraction: float | None = None
    judged: int = 0
    unconstrained: int = 0
    detail: Detail | None = None
    problem: str | None = None
    crash: str | None = None
    page: float | None = None
    wide: int = 0
    end: Ending = ""
    over: tuple[Over, ...] = ()
    left_out: tuple[str, ...] = ()
    differing: bool = False
    refused: str | None = None
    wrong: tuple[Wrong, ...] = field(default=(), compare=False, repr=False)

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
        over = tuple(replace(entry, result=result) for entry in self.over)
        wrong = tuple(replace(entry, result=result) for entry in self.wrong)
        return replace(self, detail=detail, problem=problem, over=over, wrong=wrong)


def mismatch(problem: str) -> Outcome:
    """Return the outcome for what is wrong as a whole: a shape, a dtype, a count."""
    return Outcome(fraction=math.inf, problem=problem)


def larger(one: float | None, two: float | None) -> float | None:
    """Return the larger of two fractions, either of which may be missing."""
    return one if two is None else two if one is None else max(one, two)


def decide(
    fractions: Sequence[float | None],
    shape: Shape,
    element: Callable[[int], tuple[str, str, str]],
    dtype: str = "",
    *,
    pages: Sequence[float | None] | None = None,
    wide: int = 0,
) -> Outcome:
    """Judge one tensor by its fractions in row-major order, None where unconstrained.

    `element` writes down what an element is, what it is exactly, and its budget; dtype is what
    tells its subnormal numbers.
    pages are the fractions of what the page's own steps allow, where that is less.
    """
    known = [(fraction, k) for k, fraction in enumerate(fractions) if fraction is not None]
    unconstrained = len(fractions) - len(known)
    if not known:
        return Outcome(unconstrained=unconstrained)
    bad = {k: fraction for fraction, k in known if not fraction <= 1.0}
    worst = _worst(fractions)
    detail: Detail | None = None
    wrong: tuple[Wrong, ...] = ()
    if bad and worst is not None:
        there = next(k for k, fraction in bad.items() if not fraction < worst)
        detail = detail_of(position(there, shape), element(there), worst, dtype)
        judged = np.array([fraction is not None for fraction in fractions])
        failing = np.isin(np.arange(len(fractions)), list(bad))
        wrong = (Wrong("", judged.reshape(shape), failing.reshape(shape)),)
    over = (over_budget(element(k), fraction, dtype) for k, fraction in bad.items())
    page = worst if pages is None else _worst(pages)
    return Outcome(
        worst,
        len(known),
        unconstrained,
        detail,
        page=page,
        wide=wide,
        over=grouped(over),
        wrong=wrong,
    )


def detail_of(index: Shape, element: tuple[str, str, str], fraction: float, dtype: str) -> Detail:
    """Return the detail of an element, as `decide` is told it, before its result has a name."""
    got, exact, budget = element
    return Detail("", index, shortest(float(got), dtype), exact, budget, fraction)


def _worst(fractions: Sequence[float | None]) -> float | None:
    known = [fraction for fraction in fractions if fraction is not None]
    return max((math.inf if math.isnan(fraction) else fraction for fraction in known), default=None)


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
        max((o.page for o in outcomes if o.page is not None), default=None),
        sum(o.wide for o in outcomes),
        next((o.end for o in outcomes if o.end), ""),
        grouped(entry for o in outcomes for entry in o.over),
        tuple(dict.fromkeys(what for o in outcomes for what in o.left_out)),
        any(o.differing for o in outcomes),
        next((o.refused for o in outcomes if o.refused is not None), None),
        tuple(wrong for o in outcomes for wrong in o.wrong),
    )
