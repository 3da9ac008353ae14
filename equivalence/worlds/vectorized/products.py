"""Products over whole axes: of factors, of two rows term by term, and sums that are carried on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence.worlds.vectorized.extents import Extent, as_one
from equivalence.worlds.vectorized.numbers import Many, current, meet, read
from equivalence.worlds.vectorized.terms import VectorExtent, leading, level, of_terms, upto
from equivalence.worlds.vectorized.widths import OWN, Bound, Doubles
from spec import axes as spec_axes
from spec import scalar


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
        widths = current().widths
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
    factors, along = of_terms(row, term), leading(len(row))
    if type(factors) is not Many:
        return np.prod(factors, axis=along)
    known = _Factors(read(factors))
    *others, rounds = known.columns
    folded = [*(np.prod(c, axis=along) for c in others), np.sum(rounds, axis=along)]
    return known.product(*folded)


def _running_product(extent: Extent, term: Callable[..., Any]) -> Callable[..., Any]:
    """Multiply first factors for every number of them; a count of each entry chooses."""
    known = _Factors(read(meet(of_terms((extent,), term))))
    *others, rounds = known.columns
    ones = np.ones_like(rounds[:1])
    columns = [np.concatenate([ones, np.cumprod(column, axis=0)]) for column in others]
    columns.append(upto(rounds))

    def chosen(number: Any) -> Many:
        at = np.asarray(number)[None]
        return known.product(
            *(np.take_along_axis(*level(column, at), axis=0)[0] for column in columns)
        )

    return chosen


def _carrying(
    extent: Extent, term: Callable[..., Any], factor: Callable[..., Any]
) -> Callable[..., Any]:
    """Carry sums of products on along the axis in front, all at once, by doubling."""
    n, widths = int(extent), current().widths
    terms = read(meet(of_terms((extent,), term)))
    factors = (
        terms if n < 2 else read(meet(of_terms((VectorExtent(n - 1),), lambda j: factor(j + 1))))
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
        found = np.take_along_axis(*level(v, at), axis=0)[0]
        if bound is None:
            return Many(found)
        return Many(found, np.take_along_axis(*level(bound, at), axis=0)[0])

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


def _dot_over(extent: Extent, left: Callable[..., Any], right: Callable[..., Any]) -> Many:
    widths, depth = current().widths, current().axes
    count = int(extent)
    k = np.arange(count).reshape(-1, *(1,) * depth)
    current().axes += 1
    try:
        x, y = (_factor(meet(side(k))) for side in (left, right))
    finally:
        current().axes -= 1
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
    x, reader = read(x), current().widths.dot
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


scalar.dot_extent.register(VectorExtent)(_dot_over)
scalar.product_extent.register(VectorExtent)(_product_over)
as_one(scalar.product_extent, VectorExtent, _product_over)
spec_axes.running_product.register(VectorExtent)(_running_product)
spec_axes.carrying.register(VectorExtent)(_carrying)
