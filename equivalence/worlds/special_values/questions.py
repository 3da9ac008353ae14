"""Questions to special scalars: where the possibilities answer differently there is a `Doubt`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equivalence.worlds.kinds import INFINITE, NANS, named
from equivalence.worlds.special_values.sets import (
    Line,
    SpecialValues,
    bounded_of,
    joined,
    pair,
    read_of,
)
from equivalence.worlds.stable.choices import Fork, Settled, as_deep_as
from spec import scalar


class Doubt:
    """A question that the possibilities answer differently."""

    __slots__ = ("line",)

    def __init__(self, line: Line) -> None:
        """Remember the line, on which a constant branch is taken."""
        self.line = line

    def __bool__(self) -> bool:
        """Refuse to be read as True or False."""
        raise TypeError("the contract leaves this question open; read it with spec.scalar.select")


@scalar.select.register(Doubt)
def _select(truth: Doubt, first: Any, second: Any) -> SpecialValues:
    return joined(truth.line.special(first), truth.line.special(second))


class Sure(Settled):
    """A question that all possibilities answer alike, of a stable contract."""

    __slots__ = ()


YES, NO = Sure(True), Sure(False)


@scalar.select.register(Sure)
def _chosen(truth: Sure, first: Any, second: Any) -> Any:
    branch = scalar.select(truth.value, first, second)
    other = second if truth.value else first
    if type(branch) is not SpecialValues or type(other) is not SpecialValues:
        return branch
    if branch.finite is None or other.finite is None:
        return branch
    finite = as_deep_as(branch.finite, other.finite)
    if finite is branch.finite:
        return branch
    return SpecialValues(branch.line, branch.kinds, finite, branch.beside)


def answered(line: Line, answers: set[bool]) -> bool | Doubt:
    """Return the only answer, or that there are two."""
    return answers.pop() if len(answers) == 1 else Doubt(line)


def _compared(line: Line, answers: set[bool]) -> bool | Sure | Doubt:
    """Return the answer to a comparison."""
    answer = answered(line, answers)
    if not line.steps.stable or isinstance(answer, Doubt):
        return answer
    return YES if answer else NO


def possibilities(x: SpecialValues) -> list[float]:
    """List the kinds as floats, and 0 for the finite part: compared with infinities, it may."""
    found = [float(name) for name in named(x.kinds)]
    return found if x.finite is None else [*found, 0.0]


def _question(ask: scalar.Question, compare: Callable[[float, float], bool]) -> Any:
    def rule(x: Any, y: Any) -> bool | Sure | Doubt:
        if x is y and type(x) is SpecialValues:
            return _compared(x.line, {compare(number, number) for number in possibilities(x)})
        x, y = pair(x, y)
        answers: set[bool] = set()
        for a in possibilities(x):
            for b in possibilities(y):
                if a == b == 0.0:
                    found = ask(bounded_of(x), bounded_of(y))
                    answers |= {True, False} if isinstance(found, Fork) else {bool(found)}
                else:
                    answers.add(compare(a, b))
        return _compared(x.line, answers)

    return rule


scalar.less.register(SpecialValues)(_question(scalar.less, lambda a, b: a < b))
scalar.equal.register(SpecialValues)(_question(scalar.equal, lambda a, b: a == b))


@scalar.is_zero.register(SpecialValues)
def _is_zero(x: SpecialValues, _: object) -> bool | Doubt:
    answers = {False} if x.kinds else set[bool]()
    if x.finite is not None:
        w = read_of(x)
        open_ = not w.is_finite() or w.contains(0)
        answers |= {True} if w.is_zero() else {True, False} if open_ else {False}
    return answered(x.line, answers)


@scalar.is_nan.register(SpecialValues)
def _is_nan(x: SpecialValues, _: object) -> bool | Doubt:
    answers = {True} if x.kinds & NANS else set[bool]()
    others = x.kinds & INFINITE or x.finite is not None
    return answered(x.line, answers | ({False} if others else set()))
