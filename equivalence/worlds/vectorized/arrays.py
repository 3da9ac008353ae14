"""Arrays of scalars: a page runs once on all entries of a large result, or on a sample of them.

A `Many` is a pair of float64 arrays, a value and a bound: every result that the contract allows,
and the exact value, lie that close to the value (proofs_notes/arrays.md). Every axis is a
`VectorExtent`, so that a tensor stays a rule; an entry is asked for at arrays of indices, one open
axis for each axis of the result, and a sum asks for its terms at one more axis, in front of all
others. So the unchanged page judges millions of entries in some dozens of array operations.

Integers that a page counts and compares (labels, ties, positions) are plain arrays of int64, exact.
Truth values are three-valued: yes, no, or neither where a bound leaves the question open.

>>> from equivalence.worlds.contract import FP32, Contract
>>> from equivalence.registry import OPS
>>> with working(Widths(Contract("ieee", FP32, FP32)), axes=1):
...     x = held(np.arange(6.0).reshape(2, 3))
...     total = OPS["sum"].value(x, axes=(1,))
...     at(total, [np.arange(2)]).v
array([ 3., 12.])
"""

# This file is longer than the guide because the rules of one world stand in one table.

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from equivalence.worlds.storage import narrowly, saved
from equivalence.worlds.vectorized.extents import Extent, as_one
from equivalence.worlds.vectorized.widths import MOVED, OWN, Bound, Doubles, Widths, product_bound
from spec import axes as spec_axes
from spec import rng, scalar
from spec.op import AnyTensor
from spec.shape import Shape
from spec.tensor import tabulate

Integers: TypeAlias = npt.NDArray[np.int64]
Truths: TypeAlias = npt.NDArray[np.bool_]


class VectorExtent(Extent):
    """An extent whose indices are arrays."""


@dataclass
class _Work:
    """By which contract scalars are reckoned, and how many axes the indices have by now."""

    widths: Widths
    axes: int


_works: list[_Work] = []


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
        return _added(self, _meet(other), 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Many:
        """Subtract, and round once; of one number from itself, 0 is left."""
        if other is self:
            return Many(np.zeros_like(self.v))
        return _added(self, _meet(other), -1)

    def __rsub__(self, other: Any) -> Many:
        """Subtract from an exact constant, and round once."""
        return _added(_meet(other), self, -1)

    def __mul__(self, other: Any) -> Many:
        """Multiply, and round once."""
        return _multiplied(self, _meet(other))

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
    step = _works[-1].widths.step
    if Fraction(float(v)) == exact and bool(step.holds(v)):
        return Many(v)
    return _inexact(v)


def _inexact(v: Doubles) -> Many:
    """Return numbers that are doubles near what is meant, as a kernel holds that."""
    return Many(v, _works[-1].widths.step.widened(v, OWN * np.abs(v)))


def _meet(x: Any) -> Many:
    """Return an operand as scalars of this world."""
    if type(x) is Many:
        return x
    if isinstance(x, (np.ndarray, np.integer)):
        v = np.asarray(x, dtype=np.float64)
        step = _works[-1].widths.step
        return Many(v) if bool(np.all(step.holds(v))) else _inexact(v)
    if isinstance(x, Extent):
        return constant(x.number)
    if isinstance(x, (int, float, Fraction)):
        return constant(x)
    raise TypeError(f"an array of scalars meets a {type(x).__name__}; accepted are numbers")


def _read(x: Many) -> Many:
    """Return what an operand may be read as."""
    b = _works[-1].widths.read(x.v, x.b)
    return x if b is x.b else Many(x.v, b)


def _is_move(x: Many) -> bool:
    """Say whether multiplying by an exact scalar moves the exponent alone."""
    if x.b is not None:
        return False
    if x.v.ndim == 0:
        return bool(np.frexp(np.abs(x.v))[0] == 0.5)
    return bool(x.v.size) and bool(np.all((np.abs(x.v) == 1) | (x.v == 0)))


def _added(x: Many, y: Many, sign: int) -> Many:
    x, y = _read(x), _read(y)
    for one, other in ((x, y), (y, x)):
        if other.b is None and other.v.ndim == 0 and other.v == 0:
            return one if one is x or sign > 0 else -one
    v = x.v + y.v if sign > 0 else x.v - y.v
    b = _sum_of(x.b, y.b)
    return Many(v, _works[-1].widths.rounded(v, b))


def _sum_of(x: Bound, y: Bound) -> Bound:
    return x if y is None else y if x is None else x + y


def _multiplied(x: Many, y: Many) -> Many:
    x, y = _read(x), _read(y)
    v = x.v * y.v
    for factor, other in ((x, y), (y, x)):
        if _is_move(factor):
            if other.b is None and bool(np.all(np.abs(factor.v) == 1)):
                return Many(v)
            return Many(v, _moved(v, other, np.abs(factor.v)))
    b = _works[-1].widths.rounded(v, product_bound((x.v, x.b), (y.v, y.b)))
    for factor, other in ((x, y), (y, x)):
        if b is not None and factor.b is None and not factor.v.all():
            # An exact zero, unless it met what is unconstrained.
            b = np.where((factor.v == 0) & np.isfinite(other.far), 0.0, b)
    return Many(v, b)


def _moved(v: Doubles, x: Many, factor: Doubles) -> Bound:
    """Return the bound of x times a power of two, or ones and zeros: exact unless it underflows."""
    widths = _works[-1].widths
    if x.b is None and bool(np.all(widths.fits(v))):
        return None
    bound: Doubles = widths.eta * (factor != 0) + (0.0 if x.b is None else x.b) * factor
    return bound


def _divided(x: Any, y: Any) -> Many:
    x, y = _read(_meet(x)), _read(_meet(y))
    if _is_move(y) and y.v.ndim == 0 and _works[-1].widths.steps.division.correct:
        return Many(x.v / y.v, _moved(x.v / y.v, x, 1 / np.abs(y.v)))
    return Many(*_works[-1].widths.divided((x.v, x.b), (y.v, y.b)))


def _erf(x: Doubles) -> Doubles:
    return np.asarray(torch.from_numpy(np.ascontiguousarray(x)).erf().numpy())


EVALUATED = {"erf": _erf}
"""The functions that numpy does not have."""


def _function(name: str) -> Callable[[Many], Many]:
    evaluate, moves = EVALUATED.get(name) or getattr(np, name), MOVED[name]

    def rule(x: Many) -> Many:
        x = _read(x)
        y = evaluate(x.v)
        moved = 0.0 if x.b is None else moves(x.v, y, x.b)
        return Many(y, _works[-1].widths.applied(name, x.far, y, moved))

    return rule


@saved.register(Many)
def _saved(x: Many) -> Many:
    return Many(x.v, _works[-1].widths.passed(x.v, x.b))


@narrowly.register(Many)
def _narrowly(total: Many, size: Many, count: int) -> Many:
    b = 0.0 if total.b is None else total.b
    return Many(total.v, _works[-1].widths.narrowly(b, size.far, count))


def _square(x: Many) -> Many:
    x = _read(x)
    v = x.v * x.v
    return Many(v, _works[-1].widths.rounded(v, product_bound((x.v, x.b), (x.v, x.b))))


def _maximum(x: Any, y: Any) -> Many:
    x, y = _read(_meet(x)), _read(_meet(y))
    return _meet(_select(Truth(x.v >= y.v, _certain(x, y)), x, y))


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
            return Truth(np.asarray(ask(_integers(x), _integers(y))))
        x, y = _read(_meet(x)), _read(_meet(y))
        return Truth(np.asarray(ask(x.v, y.v)), _certain(x, y))

    return rule


def _integers(x: Any) -> Any:
    return x.number if isinstance(x, Extent) else x


def _is_zero(x: Many, _: object) -> Truth:
    """Only what is exactly 0 is zero, as in the world of single scalars."""
    return Truth(x.v == 0 if x.b is None else (x.v == 0) & (x.b == 0))


def _select(truth: Truth, first: Any, second: Any) -> Any:
    whole = not isinstance(first, (Many, float, Fraction)) and not isinstance(
        second, (Many, float, Fraction)
    )
    if whole and truth.known is None:
        return np.where(truth.value, _integers(first), _integers(second))
    x, y = _meet(first), _meet(second)
    v = np.where(truth.value, x.v, y.v)
    if truth.known is None:
        if x.b is None and y.b is None:
            return Many(v)
        of_x, of_y = (0.0 if z.b is None else z.b for z in (x, y))
        return Many(v, np.where(truth.value, of_x, of_y))
    of_x, of_y = (np.abs(z.v - v) + (0.0 if z.b is None else z.b) for z in (x, y))
    either = np.maximum(of_x, of_y) * (1 + OWN)
    return Many(v, np.where(truth.known, np.where(truth.value, of_x, of_y), either))


def _of_terms(extents: Sequence[Extent], term: Callable[..., Any]) -> Any:
    """Ask for the terms of a reduction: one more axis for each extent, in front of all others."""
    work = _works[-1]
    depth, count = work.axes, len(extents)
    ranges = [
        np.arange(int(n)).reshape(-1, *(1,) * (depth + count - 1 - k))
        for k, n in enumerate(extents)
    ]
    work.axes += count
    try:
        found = term(*ranges)
    finally:
        work.axes -= count
    return _spread(found, (*map(int, extents), *(1,) * depth))


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    """Repeat numbers along axes that they do not depend on."""

    def wide(a: Any) -> Any:
        return np.broadcast_to(a, np.broadcast_shapes(np.shape(a), shape))

    if type(x) is Many:
        return Many(wide(x.v), None if x.b is None else wide(x.b))
    return wide(np.asarray(x, dtype=np.int64)) if _is_whole(x) else _spread(_meet(x), shape)


def _is_whole(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) or (isinstance(x, np.ndarray) and x.dtype.kind in "iu")


def _leading(count: int) -> tuple[int, ...]:
    """Name the axes in front of those that the indices have, from the back."""
    return tuple(-(_works[-1].axes + k) for k in range(1, count + 1))


def _sum_over(extents: Any, term: Callable[..., Any]) -> Any:
    row = extents if isinstance(extents, tuple) else (extents,)
    return _total(_of_terms(row, term), _leading(len(row)))


def _total(terms: Any, along: tuple[int, ...], live: Truths | None = None) -> Any:
    """Add along axes; what is exactly 0 is no term."""
    if type(terms) is not Many:
        return np.sum(terms, axis=along)
    terms, widths = _read(terms), _works[-1].widths
    v, size = np.sum(terms.v, axis=along), np.sum(np.abs(terms.v), axis=along)
    if terms.b is None and widths.adds_exactly(terms.v, size):
        return Many(v, widths.rounded(v, None))
    there = terms.v != 0
    b: Doubles | float = 0.0
    if terms.b is not None:
        there |= terms.b != 0
        b = np.sum(np.broadcast_to(terms.b, np.shape(terms.v)), axis=along)
    if live is not None:
        there = there & live
    count = np.count_nonzero(there, axis=along)
    bound = widths.summed(v, b, size + b, count, products=False)
    # Of a single term the sum is that term, and of none it is 0.
    bound = np.where(count > 1, bound, b)
    return Many(v, None if terms.b is None and not bound.any() else bound)


def _running_sum(extent: Extent, term: Callable[..., Any]) -> Callable[..., Any]:
    """Add first terms up once for every number of them; a count of each entry chooses."""
    terms, widths = _read(_of_terms((extent,), term)), _works[-1].widths
    bounds = np.broadcast_to(0.0 if terms.b is None else terms.b, terms.v.shape)
    columns = (terms.v, np.abs(terms.v), bounds, (terms.v != 0) | (bounds != 0))
    v, size, b, count = (_upto(np.asarray(column, np.float64)) for column in columns)
    exact = terms.b is None and widths.adds_exactly(terms.v, size)

    def chosen(number: Any) -> Many:
        at = np.asarray(number)[None]
        here = [
            np.take_along_axis(*_level(column, at), axis=0)[0] for column in (v, size, b, count)
        ]
        if exact:
            return Many(here[0], widths.rounded(here[0], None))
        bound = widths.summed(here[0], here[2], here[1] + here[2], here[3], products=False)
        return Many(here[0], np.where(here[3] > 1, bound, here[2]))

    return chosen


class _Factors:
    """What tells how products of factors, along the axis in front, may be rounded."""

    def __init__(self, factors: Many) -> None:
        """Read the columns of numbers; those of magnitude 2^k are not rounded."""
        off = 0.0 if factors.b is None else factors.b
        far, near = factors.far, np.maximum(np.abs(factors.v) - off, 0.0)
        there = far != 0
        rounds = there & ((np.frexp(far)[0] != 0.5) | (off != 0))
        self.exact = factors.b is None
        self.columns = (
            factors.v,
            far,
            np.where(there, np.maximum(far, 1.0), 1.0),
            np.where(there, np.minimum(near, 1.0), 1.0),
            rounds.astype(np.float64),
        )

    def product(self, v: Any, far: Any, large: Any, small: Any, rounded: Any) -> Many:
        """Return a product by those of the columns, and by the number of what is rounded."""
        widths = _works[-1].widths
        spare = widths.fits(v) & (large <= widths.steps.largest)
        if self.exact and widths.settled and bool(np.all(spare & (small > 2.0**-100))):
            return Many(v)
        b = np.maximum(far - np.abs(v), 0.0) + (0.0 if self.exact else OWN * 4 * far)
        bound = widths.multiplied(v, b, (large, small), np.maximum(rounded - 1, 0))
        # An exact 0 makes the product 0, unless what it meets overflows.
        zero = (far == 0) & np.isfinite(bound)
        return Many(v, np.where(zero, 0.0, bound))


def _product_over(extents: Any, term: Callable[..., Any]) -> Any:
    row = extents if isinstance(extents, tuple) else (extents,)
    factors, along = _of_terms(row, term), _leading(len(row))
    if type(factors) is not Many:
        return np.prod(factors, axis=along)
    known = _Factors(_read(factors))
    *others, rounds = known.columns
    folded = [*(np.prod(c, axis=along) for c in others), np.sum(rounds, axis=along)]
    return known.product(*folded)


def _running_product(extent: Extent, term: Callable[..., Any]) -> Callable[..., Any]:
    """Multiply first factors for every number of them; a count of each entry chooses."""
    known = _Factors(_read(_meet(_of_terms((extent,), term))))
    *others, rounds = known.columns
    ones = np.ones_like(rounds[:1])
    columns = [np.concatenate([ones, np.cumprod(column, axis=0)]) for column in others]
    columns.append(_upto(rounds))

    def chosen(number: Any) -> Many:
        at = np.asarray(number)[None]
        return known.product(
            *(np.take_along_axis(*_level(column, at), axis=0)[0] for column in columns)
        )

    return chosen


def _carrying(
    extent: Extent, term: Callable[..., Any], factor: Callable[..., Any]
) -> Callable[..., Any]:
    """Carry sums of products on along the axis in front, all at once, by doubling."""
    n, widths = int(extent), _works[-1].widths
    terms = _read(_meet(_of_terms((extent,), term)))
    factors = (
        terms if n < 2 else _read(_meet(_of_terms((VectorExtent(n - 1),), lambda j: factor(j + 1))))
    )
    shape = np.broadcast_shapes(terms.v.shape[1:], factors.v.shape[1:])
    t, f = (_wide(x, (len(x.v), *shape)) for x in (terms, factors))
    ones = np.ones((1, *shape))
    by, far = (np.concatenate([ones, a])[:n] for a in (f.v, f.far))
    unit = widths.unit
    v = _doubled(t.v, by)
    sizes = _doubled(t.far, far)
    rounded = _doubled(t.far, far * (1 + unit))
    counts = np.cumsum((t.far != 0).astype(np.float64), axis=0)
    large, small = (np.cumprod(end(np.where(far == 0, 1.0, far), 1.0), axis=0)
                    for end in (np.maximum, np.minimum))  # fmt: skip
    reach = large * np.cumsum(t.far, axis=0)
    steps = np.arange(n, dtype=np.float64).reshape(-1, *(1,) * len(shape))
    exact = widths.settled and terms.b is None and (n < 2 or factors.b is None)
    places = np.cumsum(_halves(by), axis=0) if exact else steps
    whole = exact and bool(np.all(t.v == np.rint(t.v)))
    room = math.ldexp(1.0, min(widths.step.format.precision, 40))
    if whole and bool(np.all(reach * 2.0**places <= room)):
        bound: Bound = None
    else:
        off = rounded * np.exp(np.maximum(counts - 1, 0) * math.log1p(unit)) - sizes
        off = np.maximum(off, 0.0) + np.maximum(sizes - np.abs(v), 0.0) * (not exact)
        off = off + OWN * (2 * steps + 2) * sizes
        least = np.minimum.accumulate(np.where(t.far == 0, 1.0, np.minimum(t.far, 1.0)), axis=0)
        tiny = small * least < 2 * widths.steps.smallest
        off = off + np.where(tiny, widths.eta * (2 * steps + 1) * np.maximum(reach, 1.0), 0.0)
        bound = np.where(
            reach * (1 + unit) ** (2 * steps) <= widths.steps.largest, off * (1 + 2.0**-40), np.nan
        )

    def chosen(place: Any) -> Many:
        at = np.asarray(place)[None]
        found = np.take_along_axis(*_level(v, at), axis=0)[0]
        if bound is None:
            return Many(found)
        return Many(found, np.take_along_axis(*_level(bound, at), axis=0)[0])

    return chosen


def _wide(x: Many, shape: tuple[int, ...]) -> Many:
    """Repeat numbers to a shape."""
    b = None if x.b is None else np.broadcast_to(x.b, shape)
    return Many(np.broadcast_to(x.v, shape), b)


def _doubled(terms: Doubles, factors: Doubles) -> Doubles:
    """Return r[k] = r[k - 1] f[k] + t[k] along the first axis."""
    found, by, step = terms.astype(np.float64), factors.astype(np.float64), 1
    while step < len(found):
        found = np.concatenate([found[:step], found[step:] + by[step:] * found[:-step]])
        by = np.concatenate([by[:step], by[step:] * by[:-step]])
        step *= 2
    return found


def _halves(factors: Doubles) -> Doubles:
    """Count the binary places of factors behind the point, up to 8."""
    places = np.zeros_like(factors)
    for k in range(8):
        scaled = factors * 2.0**k
        places = np.where(scaled == np.rint(scaled), places, k + 1.0)
    return places


def _upto(column: Doubles) -> Doubles:
    """Return the sums of the first terms, from none to all."""
    return np.concatenate([np.zeros_like(column[:1]), np.cumsum(column, axis=0)])


def _level(column: Doubles, at: Integers) -> tuple[Doubles, Integers]:
    """Let places, and what lies at them, have the same axes beside the first."""
    rank = max(column.ndim, at.ndim)
    column = column.reshape(column.shape[:1] + (1,) * (rank - column.ndim) + column.shape[1:])
    at = at.reshape(at.shape[:1] + (1,) * (rank - at.ndim) + at.shape[1:])
    wide = np.broadcast_shapes(column.shape[1:], at.shape[1:])
    return np.broadcast_to(column, (len(column), *wide)), np.broadcast_to(at, (1, *wide))


def _dot_over(extent: Extent, left: Callable[..., Any], right: Callable[..., Any]) -> Many:
    widths, depth = _works[-1].widths, _works[-1].axes
    count = int(extent)
    k = np.arange(count).reshape(-1, *(1,) * depth)
    _works[-1].axes += 1
    try:
        x, y = (_factor(_meet(side(k))) for side in (left, right))
    finally:
        _works[-1].axes -= 1
    v = _contracted(x.v, y.v, count, depth)
    size = _contracted(np.abs(x.v), np.abs(y.v), count, depth)
    whole = x.b is None and y.b is None
    if whole and widths.adds_exactly(x.v, size) and widths.adds_exactly(y.v, size):
        return Many(v, widths.rounded(v, None))
    b: Doubles | float = 0.0
    if not whole:
        b = _contracted(x.far, y.far, count, depth) - size
        b = np.maximum(b, 0.0) + OWN * (count + 2) * (size + np.abs(b))
    return Many(v, widths.summed(v, b, size + b, count, products=True))


def _factor(x: Many) -> Many:
    """Return what a factor of a dot product may be read as."""
    x, reader = _read(x), _works[-1].widths.dot
    if reader is None:
        return x
    held = reader.holds(x.v) if x.b is None else np.False_
    if np.all(held):
        return x
    off = reader.widened(x.v, 0.0 if x.b is None else x.b)
    return Many(x.v, np.where(held, 0.0, off))


def _contracted(x: Doubles, y: Doubles, count: int, depth: int) -> Doubles:
    """Multiply and add along the axis in front; axes of one entry cost nothing."""
    x, y = (_fronted(a, count, depth) for a in (x, y))
    kept = [[k for k, n in enumerate(a.shape) if n > 1 or k == 0] for a in (x, y)]
    out = sorted({*kept[0], *kept[1]} - {0})
    thin = [a.reshape([a.shape[k] for k in ks]) for a, ks in zip((x, y), kept, strict=True)]
    found = np.einsum(thin[0], kept[0], thin[1], kept[1], out, optimize=True)
    whole = [max(a.shape[k] for a in (x, y)) for k in range(1, depth + 1)]
    result: Doubles = found.reshape(whole)
    return result


def _fronted(a: Doubles, count: int, depth: int) -> Doubles:
    a = a.reshape((1,) * (depth + 1 - a.ndim) + a.shape)
    return np.broadcast_to(a, (count, *a.shape[1:]))


def _max_over(extents: Any, term: Callable[..., Any]) -> Any:
    row = extents if isinstance(extents, tuple) else (extents,)
    found = _of_terms(row, term)
    if type(found) is not Many:
        return np.max(found, axis=_leading(len(row)))
    terms = _read(found)
    v = np.max(terms.v, axis=_leading(len(row)))
    b = None if terms.b is None else np.max(terms.b, axis=_leading(len(row)))
    return Many(v, b)


def _sum_terms(terms: Sequence[Any]) -> Any:
    if all(map(_is_whole, terms)):
        return sum(terms)
    row = [_meet(term) for term in terms]
    depth = _works[-1].axes
    shape = np.broadcast_shapes((1,) * depth, *(np.shape(x.v) for x in row))
    v = np.stack([np.broadcast_to(x.v, shape) for x in row])
    exact = all(x.b is None for x in row)
    bounds = [np.broadcast_to(0.0 if x.b is None else x.b, shape) for x in row]
    return _total(Many(v, None if exact else np.stack(bounds)), (0,))


def _sent_to(
    place: Integers,
    extents: Shape,
    position: Callable[..., Any],
    term: Callable[..., Any],
    onto: Any,
) -> Many:
    """Sort what is sent by where it is sent to, and add, at each place, as many as the most.

    Where the positions depend on other axes as well, what lies there is sorted apart, by a key.
    """
    work, shape = _works[-1], tuple(map(int, extents))
    every = [j.reshape(-1) for j in np.indices(shape)] if shape else [np.zeros(1, np.int64)]
    open_axes = (1,) * work.axes
    asked = (j.reshape(-1, *open_axes) for j in every) if shape else ()
    sent = np.asarray(position(*asked), dtype=np.int64)
    sent = np.broadcast_to(sent, np.broadcast_shapes((len(every[0]), *open_axes), sent.shape))
    beside = np.arange(math.prod(sent.shape[1:])).reshape(sent.shape[1:])
    span = 1 + int(max(np.max(sent, initial=0), np.max(place, initial=0)))
    keys = (beside * span + sent).reshape(-1)
    order = np.argsort(keys, kind="stable")
    wanted = beside * span + place
    first, last = (np.searchsorted(keys[order], wanted, side=s) for s in ("left", "right"))
    most = int(np.max(last - first, initial=0))
    number = np.arange(most).reshape(-1, *open_axes)
    live = first + number < last
    chosen = order[np.minimum(first + number, max(len(order) - 1, 0))] if len(order) else number
    chosen = chosen // max(beside.size, 1)
    work.axes += 1
    try:
        found = _meet(term(*(j[chosen] for j in every) if shape else ()))
    finally:
        work.axes -= 1
    wide = np.broadcast_shapes((most, *(1,) * work.axes), live.shape, np.shape(found.v))
    v = np.where(live, np.broadcast_to(found.v, wide), 0.0)
    b = None if found.b is None else np.where(live, np.broadcast_to(found.b, wide), 0.0)
    if onto is not None:
        v = np.concatenate([v, np.broadcast_to(onto.v, (1, *wide[1:]))])
        if b is not None or onto.b is not None:
            of_terms = np.zeros(wide) if b is None else b
            own = np.broadcast_to(0.0 if onto.b is None else onto.b, (1, *wide[1:]))
            b = np.concatenate([of_terms, own])
    found = _total(Many(v, b), _leading(1))
    assert type(found) is Many
    return found


def _word(seed: int, call: int, element: Integers) -> Integers:
    """Run the book's Philox on arrays of counters; a word is the one that its element names."""
    block, lane = element >> 2, element & 3
    counter = (block & rng.MASK, block >> 32, call & rng.MASK, call >> 32)
    wide = tuple(np.broadcast_to(np.asarray(c, np.uint64), np.shape(element)) for c in counter)
    words = rng.philox(wide, (seed & rng.MASK, seed >> 32))  # type: ignore[arg-type]
    return np.choose(lane, [np.asarray(w).astype(np.int64) for w in words])


WHOLE = (np.ndarray, np.integer)

for _name in MOVED:
    getattr(scalar, _name).register(Many)(_function(_name))
scalar.pi_like.register(Many)(lambda x: _inexact(np.asarray(math.pi)))
scalar.square.register(Many)(_square)
scalar.absolute.register(Many)(lambda x: Many(np.abs(x.v), x.b))
scalar.zero_like.register(Many)(lambda x: constant(0))
scalar.lift.register(Many)(lambda like, number: _meet(number))
scalar.divide.register(Many, *WHOLE)(_divided)
scalar.maximum.register(Many)(_maximum)
scalar.less.register(Many, *WHOLE)(_question(lambda x, y: x < y, same=False))
scalar.equal.register(Many, *WHOLE)(_question(lambda x, y: x == y, same=True))
scalar.is_zero.register(Many)(_is_zero)
scalar.is_zero.register(*WHOLE)(lambda x, _: Truth(np.asarray(_integers(x) == 0)))
scalar.select.register(Truth)(_select)
scalar.kronecker.register(*WHOLE)(lambda i, j: np.asarray(i == j).astype(np.int64))
scalar.sum_terms.register(Many, *WHOLE)(_sum_terms)
scalar.sum_extent.register(VectorExtent)(_sum_over)
scalar.dot_extent.register(VectorExtent)(_dot_over)
scalar.max_extent.register(VectorExtent)(_max_over)
scalar.product_extent.register(VectorExtent)(_product_over)
as_one(scalar.sum_extent, VectorExtent, _sum_over)
as_one(scalar.max_extent, VectorExtent, _max_over)
as_one(scalar.product_extent, VectorExtent, _product_over)
spec_axes.running_sum.register(VectorExtent)(_running_sum)
spec_axes.running_product.register(VectorExtent)(_running_product)
spec_axes.carrying.register(VectorExtent)(_carrying)
spec_axes.sent_to.register(*WHOLE)(_sent_to)
rng.random_word.register(*WHOLE)(_word)


def held(numbers: npt.NDArray[Any]) -> AnyTensor:
    """Return a tensor that reads exact numbers, indices or truth values from an array."""

    def entry(*index: Any) -> Any:
        found = np.asarray(numbers[index])
        if found.dtype.kind == "f":
            return Many(found)
        return Truth(found) if found.dtype.kind == "b" else found

    return tabulate(tuple(map(VectorExtent, numbers.shape)), entry)


def at(tensor: AnyTensor, places: Sequence[Integers]) -> Many:
    """Return the entries at all combinations of places along each axis, as broadcast arrays."""
    shape = tuple(len(p) for p in places)
    index = [p.reshape(-1, *(1,) * (len(shape) - 1 - k)) for k, p in enumerate(places)]
    listed = all(isinstance(n, int) for n in tensor.shape)
    found = _meet(tensor[(0,) * len(shape)] if listed else tensor[tuple(index)])
    return Many(_shaped(found.v, shape), None if found.b is None else _shaped(found.b, shape))


def _shaped(a: Doubles, shape: tuple[int, ...]) -> Doubles:
    """Drop axes in front, which have one entry, or repeat along those that are missing."""
    return np.broadcast_to(a.reshape(a.shape[max(a.ndim - len(shape), 0) :]), shape)
