"""Sums over whole axes: all terms of a reduction at once, at one more axis in front."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from equivalence.worlds.vectorized.extents import Extent, as_one
from equivalence.worlds.vectorized.numbers import (
    WHOLE,
    Many,
    Truths,
    current,
    is_whole,
    meet,
    read,
)
from equivalence.worlds.vectorized.widths import Doubles
from spec import axes as spec_axes
from spec import scalar
from spec.shape import Shape

Integers: TypeAlias = npt.NDArray[np.int64]


class VectorExtent(Extent):
    """An extent whose indices are arrays."""


def of_terms(extents: Sequence[Extent], term: Callable[..., Any]) -> Any:
    """Ask for the terms of a reduction: one more axis for each extent, in front of all others."""
    depth = current().axes
    return _spread(at_new_axes(extents, term), (*map(int, extents), *(1,) * depth))


def at_new_axes(extents: Sequence[Any], term: Callable[..., Any]) -> Any:
    """Ask for a term at all indices below some extents, each along an axis in front of all others.

    The result lacks axes that it does not depend on, or has one entry there.
    """
    work = current()
    depth, count = work.axes, len(extents)
    ranges = [
        np.arange(int(n)).reshape(-1, *(1,) * (depth + count - 1 - k))
        for k, n in enumerate(extents)
    ]
    work.axes += count
    try:
        return term(*ranges)
    finally:
        work.axes -= count


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    """Repeat numbers along axes that they do not depend on."""

    def wide(a: Any) -> Any:
        return np.broadcast_to(a, np.broadcast_shapes(np.shape(a), shape))

    if type(x) is Many:
        return Many(wide(x.v), None if x.b is None else wide(x.b))
    return wide(np.asarray(x, dtype=np.int64)) if is_whole(x) else _spread(meet(x), shape)


def leading(count: int) -> tuple[int, ...]:
    """Name the axes in front of those that the indices have, from the back."""
    return tuple(-(current().axes + k) for k in range(1, count + 1))


def _sum_over(extents: Any, term: Callable[..., Any]) -> Any:
    row = extents if isinstance(extents, tuple) else (extents,)
    return _total(of_terms(row, term), leading(len(row)))


def _total(terms: Any, along: tuple[int, ...], live: Truths | None = None) -> Any:
    """Add along axes; what is exactly 0 is no term."""
    if type(terms) is not Many:
        return np.sum(terms, axis=along)
    terms, widths = read(terms), current().widths
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
    terms, widths = read(of_terms((extent,), term)), current().widths
    bounds = np.broadcast_to(0.0 if terms.b is None else terms.b, terms.v.shape)
    columns = (terms.v, np.abs(terms.v), bounds, (terms.v != 0) | (bounds != 0))
    v, size, b, count = (upto(np.asarray(column, np.float64)) for column in columns)
    exact = terms.b is None and widths.adds_exactly(terms.v, size)

    def chosen(number: Any) -> Many:
        at = np.asarray(number)[None]
        here = [np.take_along_axis(*level(column, at), axis=0)[0] for column in (v, size, b, count)]
        if exact:
            return Many(here[0], widths.rounded(here[0], None))
        bound = widths.summed(here[0], here[2], here[1] + here[2], here[3], products=False)
        return Many(here[0], np.where(here[3] > 1, bound, here[2]))

    return chosen


def upto(column: Doubles) -> Doubles:
    """Return the sums of the first terms, from none to all."""
    return np.concatenate([np.zeros_like(column[:1]), np.cumsum(column, axis=0)])


def level(column: Doubles, at: Integers) -> tuple[Doubles, Integers]:
    """Let places, and what lies at them, have the same axes beside the first."""
    rank = max(column.ndim, at.ndim)
    column = column.reshape(column.shape[:1] + (1,) * (rank - column.ndim) + column.shape[1:])
    at = at.reshape(at.shape[:1] + (1,) * (rank - at.ndim) + at.shape[1:])
    wide = np.broadcast_shapes(column.shape[1:], at.shape[1:])
    return np.broadcast_to(column, (len(column), *wide)), np.broadcast_to(at, (1, *wide))


def _max_over(extents: Any, term: Callable[..., Any]) -> Any:
    row = extents if isinstance(extents, tuple) else (extents,)
    found = of_terms(row, term)
    if type(found) is not Many:
        return np.max(found, axis=leading(len(row)))
    terms = read(found)
    v = np.max(terms.v, axis=leading(len(row)))
    b = None if terms.b is None else np.max(terms.b, axis=leading(len(row)))
    return Many(v, b)


def _sum_terms(terms: Sequence[Any]) -> Any:
    if all(map(is_whole, terms)):
        return sum(terms)
    row = [meet(term) for term in terms]
    depth = current().axes
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
    work, shape = current(), tuple(map(int, extents))
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
        found = meet(term(*(j[chosen] for j in every) if shape else ()))
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
    found = _total(Many(v, b), leading(1))
    assert type(found) is Many
    return found


scalar.sum_terms.register(Many, *WHOLE)(_sum_terms)
scalar.sum_extent.register(VectorExtent)(_sum_over)
scalar.max_extent.register(VectorExtent)(_max_over)
as_one(scalar.sum_extent, VectorExtent, _sum_over)
as_one(scalar.max_extent, VectorExtent, _max_over)
spec_axes.running_sum.register(VectorExtent)(_running_sum)
spec_axes.sent_to.register(*WHOLE)(_sent_to)
