"""Scalars of many places at once: values with bounds, and answers that may be open."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from equivalence.worlds.storage import narrowly, saved
from equivalence.worlds.vectorized.extents import Extent
from equivalence.worlds.vectorized.widths import MOVED, OWN, Bound, Doubles, Widths, product_bound
from spec import scalar

Truths: TypeAlias = npt.NDArray[np.bool_]

WHOLE = (np.ndarray, np.integer)
"""The types of indices and other integers, which are exact."""


@dataclass
class _Work:
    """By which contract scalars are reckoned, and how many axes the indices have by now."""

    widths: Widths
    axes: int


_works: list[_Work] = []


def current() -> _Work:
    """Return the innermost work."""
    return _works[-1]


@contextmanager
def working(widths: Widths, axes: int) -> Iterator[None]:
    """Let arrays follow a contract; results have at most so many axes."""
    _works.append(_Work(widths, axes))
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _works.pop()


class Many:
    """Many scalars: values, and how far from them an allowed result may lie; None: exact."""

    __slots__ = ("b", "v")

    __array_ufunc__ = None
    """numpy leaves operations with scalars of this world to them."""

    def __init__(self, v: Doubles, b: Bound = None) -> None:
        """Hold values and bounds, of shapes that broadcast."""
        self.v = v
        self.b = b

    @property
    def far(self) -> Doubles:
        """The largest magnitudes that are allowed."""
        size = np.abs(self.v)
        return size if self.b is None else size + self.b

    def __add__(self, other: Any) -> Many:
        """Add, and round once."""
        return _added(self, meet(other), 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Many:
        """Subtract, and round once; of one number from itself, 0 is left."""
        if other is self:
            return Many(np.zeros_like(self.v))
        return _added(self, meet(other), -1)

    def __rsub__(self, other: Any) -> Many:
        """Subtract from an exact constant, and round once."""
        return _added(meet(other), self, -1)

    def __mul__(self, other: Any) -> Many:
        """Multiply, and round once."""
        return _multiplied(self, meet(other))

    __rmul__ = __mul__

    def __neg__(self) -> Many:
        """Change the sign, exactly."""
        return Many(-self.v, self.b)


class Truth:
    """Answers to a question: certainly yes, certainly no, and what holds of the values."""

    __slots__ = ("known", "value")

    def __init__(self, value: Truths, known: Truths | None = None) -> None:
        """Hold what holds of the values, and where that is certain; None: everywhere."""
        self.value = value
        self.known = None if known is None or bool(np.all(known)) else known


def constant(number: int | float | Fraction) -> Many:
    """Return an exact constant as a kernel holds it: rounded once if the format lacks it."""
    exact = Fraction(number)
    v = np.asarray(float(exact))
    step = current().widths.step
    if Fraction(float(v)) == exact and bool(step.holds(v)):
        return Many(v)
    return inexact(v)


def inexact(v: Doubles) -> Many:
    """Return numbers that are doubles near what is meant, as a kernel holds that."""
    return Many(v, current().widths.step.widened(v, OWN * np.abs(v)))


def meet(x: Any) -> Many:
    """Return an operand as scalars of this world."""
    if type(x) is Many:
        return x
    if isinstance(x, (np.ndarray, np.integer)):
        v = np.asarray(x, dtype=np.float64)
        step = current().widths.step
        return Many(v) if bool(np.all(step.holds(v))) else inexact(v)
    if isinstance(x, Extent):
        return constant(x.number)
    if isinstance(x, (int, float, Fraction)):
        return constant(x)
    raise TypeError(f"an array of scalars meets a {type(x).__name__}; accepted are numbers")


def read(x: Many) -> Many:
    """Return what an operand may be read as."""
    b = current().widths.read(x.v, x.b)
    return x if b is x.b else Many(x.v, b)


def _is_move(x: Many) -> bool:
    """Say whether multiplying by an exact scalar moves the exponent alone."""
    if x.b is not None:
        return False
    if x.v.ndim == 0:
        return bool(np.frexp(np.abs(x.v))[0] == 0.5)
    return bool(x.v.size) and bool(np.all((np.abs(x.v) == 1) | (x.v == 0)))


def _added(x: Many, y: Many, sign: int) -> Many:
    x, y = read(x), read(y)
    for one, other in ((x, y), (y, x)):
        if other.b is None and other.v.ndim == 0 and other.v == 0:
            return one if one is x or sign > 0 else -one
    v = x.v + y.v if sign > 0 else x.v - y.v
    b = _sum_of(x.b, y.b)
    return Many(v, current().widths.rounded(v, b))


def _sum_of(x: Bound, y: Bound) -> Bound:
    return x if y is None else y if x is None else x + y


def _multiplied(x: Many, y: Many) -> Many:
    x, y = read(x), read(y)
    v = x.v * y.v
    for factor, other in ((x, y), (y, x)):
        if _is_move(factor):
            if other.b is None and bool(np.all(np.abs(factor.v) == 1)):
                return Many(v)
            return Many(v, _moved(v, other, np.abs(factor.v)))
    b = current().widths.rounded(v, product_bound((x.v, x.b), (y.v, y.b)))
    for factor, other in ((x, y), (y, x)):
        if b is not None and factor.b is None and not factor.v.all():
            # An exact zero, unless it met what is unconstrained.
            b = np.where((factor.v == 0) & np.isfinite(other.far), 0.0, b)
    return Many(v, b)


def _moved(v: Doubles, x: Many, factor: Doubles) -> Bound:
    """Return the bound of x times a power of two, or ones and zeros: exact unless it underflows."""
    widths = current().widths
    if x.b is None and bool(np.all(widths.fits(v))):
        return None
    bound: Doubles = widths.eta * (factor != 0) + (0.0 if x.b is None else x.b) * factor
    return bound


def _divided(x: Any, y: Any) -> Many:
    x, y = read(meet(x)), read(meet(y))
    if _is_move(y) and y.v.ndim == 0 and current().widths.steps.division.correct:
        return Many(x.v / y.v, _moved(x.v / y.v, x, 1 / np.abs(y.v)))
    return Many(*current().widths.divided((x.v, x.b), (y.v, y.b)))


def _erf(x: Doubles) -> Doubles:
    return np.asarray(torch.from_numpy(np.ascontiguousarray(x)).erf().numpy())


EVALUATED = {"erf": _erf}
"""The functions that numpy does not have."""


def _function(name: str) -> Callable[[Many], Many]:
    evaluate, moves = EVALUATED.get(name) or getattr(np, name), MOVED[name]

    def rule(x: Many) -> Many:
        x = read(x)
        y = evaluate(x.v)
        moved = 0.0 if x.b is None else moves(x.v, y, x.b)
        return Many(y, current().widths.applied(name, x.far, y, moved))

    return rule


@saved.register(Many)
def _saved(x: Many) -> Many:
    return Many(x.v, current().widths.passed(x.v, x.b))


@scalar.in_bf16.register(Many)
def _in_bf16(x: Many) -> Many:
    return Many(x.v, current().widths.in_bf16(x.v, x.b))


@narrowly.register(Many)
def _narrowly(total: Many, size: Many, count: int) -> Many:
    b = 0.0 if total.b is None else total.b
    return Many(total.v, current().widths.narrowly(b, size.far, count))


def _square(x: Many) -> Many:
    x = read(x)
    v = x.v * x.v
    return Many(v, current().widths.rounded(v, product_bound((x.v, x.b), (x.v, x.b))))


def _maximum(x: Any, y: Any) -> Many:
    x, y = read(meet(x)), read(meet(y))
    return meet(_select(Truth(x.v >= y.v, _certain(x, y)), x, y))


def _certain(x: Many, y: Many) -> Truths | None:
    """Say where the order of two numbers is the same for all that is allowed; None: everywhere."""
    width = _sum_of(x.b, y.b)
    if width is None:
        return None
    found: Truths = np.abs(x.v - y.v) * (1 - OWN) > width * (1 + OWN)
    return found


def _question(ask: Callable[[Any, Any], Any], same: bool) -> Callable[[Any, Any], bool | Truth]:
    def rule(x: Any, y: Any) -> bool | Truth:
        if x is y:
            return same
        if type(x) is not Many and type(y) is not Many:
            return Truth(np.asarray(ask(integers(x), integers(y))))
        x, y = read(meet(x)), read(meet(y))
        return Truth(np.asarray(ask(x.v, y.v)), _certain(x, y))

    return rule


def integers(x: Any) -> Any:
    return x.number if isinstance(x, Extent) else x


def _is_zero(x: Many, _: object) -> Truth:
    """Only what is exactly 0 is zero, as in the world of single scalars."""
    return Truth(x.v == 0 if x.b is None else (x.v == 0) & (x.b == 0))


def _select(truth: Truth, first: Any, second: Any) -> Any:
    whole = not isinstance(first, (Many, float, Fraction)) and not isinstance(
        second, (Many, float, Fraction)
    )
    if whole and truth.known is None:
        return np.where(truth.value, integers(first), integers(second))
    x, y = meet(first), meet(second)
    v = np.where(truth.value, x.v, y.v)
    if truth.known is None:
        if x.b is None and y.b is None:
            return Many(v)
        of_x, of_y = (0.0 if z.b is None else z.b for z in (x, y))
        return Many(v, np.where(truth.value, of_x, of_y))
    of_x, of_y = (np.abs(z.v - v) + (0.0 if z.b is None else z.b) for z in (x, y))
    either = np.maximum(of_x, of_y) * (1 + OWN)
    return Many(v, np.where(truth.known, np.where(truth.value, of_x, of_y), either))


def is_whole(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) or (isinstance(x, np.ndarray) and x.dtype.kind in "iu")


for _name in MOVED:
    getattr(scalar, _name).register(Many)(_function(_name))
scalar.pi_like.register(Many)(lambda x: inexact(np.asarray(math.pi)))
scalar.square.register(Many)(_square)
scalar.absolute.register(Many)(lambda x: Many(np.abs(x.v), x.b))
scalar.zero_like.register(Many)(lambda x: constant(0))
scalar.lift.register(Many)(lambda like, number: meet(number))
scalar.divide.register(Many, *WHOLE)(_divided)
scalar.maximum.register(Many)(_maximum)
scalar.less.register(Many, *WHOLE)(_question(lambda x, y: x < y, same=False))
scalar.equal.register(Many, *WHOLE)(_question(lambda x, y: x == y, same=True))
scalar.is_zero.register(Many)(_is_zero)
scalar.is_zero.register(*WHOLE)(lambda x, _: Truth(np.asarray(integers(x) == 0)))
scalar.select.register(Truth)(_select)
scalar.kronecker.register(*WHOLE)(lambda i, j: np.asarray(i == j).astype(np.int64))
