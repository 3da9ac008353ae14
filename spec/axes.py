"""Chapter 11. Axes: what all reductions share, and all that move entries along an axis.

A reduction splits the axes of its input into those it keeps and those it reduces.
A move along an axis collects, at each place, what was sent there.

>>> split_axes(3, (-1,))
((0, 1), (2,))
>>> sum_at(7, (4,), lambda j: (5, 7, 6, 7)[j], lambda j: 10**j)
1010
"""

# This file is longer than the guide because folds along axes, whole or on the way, are of one kind.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spec.op import AnyTensor, IndexRange, Type, refuse
from spec.refusals import Miss
from spec.scalar import (
    Extent,
    OpenFunction,
    kronecker,
    product_over,
    products_of_first,
    recurrence,
    sum_over,
    sum_terms,
)
from spec.shape import Shape, indices, normalize_axis, reduced
from spec.tensor import Nested, tabulate

Axes = tuple[int, ...]


def check_axes(name: str, x: Type, axes: Axes | None) -> Axes:
    """Return the axes counted from the front; C1: each in range, C2: distinct; None: all."""
    rank = len(x.shape)
    if axes is None:
        return tuple(range(rank))
    if isinstance(axes, int):
        raise refuse(f"{name} C1", f"axes is a tuple: write axes=({axes},)", f"axes={axes}")
    normal = [normalize_axis(axis, rank) for axis in axes]
    if any(axis is None for axis in normal):
        raise refuse(f"{name} C1", f"every axis lies in [-{rank}, {rank})", f"{axes} for {x}")
    if len(set(normal)) != len(normal):
        raise refuse(f"{name} C2", "the axes are distinct", f"{axes} for {x}")
    return tuple(axis for axis in normal if axis is not None)


BAD_AXES = (
    *(Miss("C1", ([[1.0, 2.0], [3.0, 4.0]],), {"axes": axes}) for axes in ((2,), (0, -3), (True,))),
    Miss("C1", (1.0,), {"axes": (0,)}),
    *(Miss("C2", ([[1.0, 2.0], [3.0, 4.0]],), {"axes": axes}) for axes in ((0, 0), (1, -1))),
)
"""Axes of one input that check_axes refuses."""


def check_full_axes(name: str, x: Type, axes: Axes | None) -> Axes:
    """Return the axes counted from the front; C1 and C2 as ever, C3: none of them is empty."""
    normal = check_axes(name, x, axes)
    if any(x.shape[axis] == 0 for axis in normal):
        raise refuse(f"{name} C3", "no reduced axis is empty", f"axes {normal} of {x}")
    return normal


NOT_FULL_AXES = (*BAD_AXES, Miss("C3", ([],)), Miss("C3", ([[], []],), {"axes": (1,)}))
"""Axes of one input that check_full_axes refuses."""


def check_axis(label: str, x: Type, axis: int) -> int:
    """Return one axis counted from the front, or refuse under the label."""
    rank = len(x.shape)
    normal = normalize_axis(axis, rank)
    if normal is None:
        raise refuse(label, f"the axis lies in [-{rank}, {rank})", f"{axis} for {x}")
    return normal


BAD_AXIS = (
    *(Miss("C1", ([1.0, 2.0],), {"axis": axis}) for axis in (1, -2, True)),
    Miss("C1", (1.0,), {"axis": -1}),
)
"""An axis of one input that check_axis refuses under C1."""


def _along(x: Type, *others: Type, axis: int) -> tuple[Extent, Extent]:
    return 0, x.shape[axis] - 1


ALONG_AXIS = IndexRange("C3", _along)
"""The positions along an axis of the first input."""


def bad_positions(*others: Nested) -> tuple[Miss, ...]:
    """Return calls with a wrong axis (C1), or positions that are none (C2) or not on it (C3).

    The first inputs are a tensor and the positions along its axis; the others follow.
    """
    row: Nested = [1.0, 2.0]
    return (
        *(Miss("C1", (row, [0], *others), {"axis": axis}) for axis in (1, -2)),
        Miss("C1", (1.0, [0], *others), {"axis": 0}),
        *(Miss("C2", (row, wrong, *others), {"axis": 0}) for wrong in ([0.0], [True])),
        *(Miss("C3", (row, wrong, *others), {"axis": -1}) for wrong in ([2], [-1])),
        Miss("C3", ([], [0], *others), {"axis": 0}),
    )


def check_last_axes(name: str, x: Type, **parameters: Type) -> None:
    """Refuse x without an axis (C1), and parameters whose shape is not that of its last axes (C2).

    All parameters have one shape, that of one axis or of more.
    """
    if len(x.shape) < 1:
        raise refuse(f"{name} C1", "x has at least one axis", x)
    first, *others = parameters.values()
    rank = len(first.shape)
    alike = all(other.shape == first.shape for other in others)
    if not alike or not 0 < rank <= len(x.shape) or x.shape[-rank:] != first.shape:
        named = " and ".join(parameters)
        rule = f"{named} {'have' if others else 'has'} the shape of the last axes of x, one or more"
        came = ", ".join(f"{name} {given}" for name, given in parameters.items())
        raise refuse(f"{name} C2", rule, f"x {x}, {came}")


def check_residual(name: str, x: Type, residual: Type) -> None:
    """Refuse a residual of another shape than x has (C4)."""
    if residual.shape != x.shape:
        raise refuse(f"{name} C4", "residual has the shape of x", f"x {x}, residual {residual}")


def split_axes(rank: int, axes: Axes | None) -> tuple[Axes, Axes]:
    """Return the kept and the reduced axes, both in increasing order; None reduces all."""
    gone = set(range(rank)) if axes is None else {axis % rank for axis in axes}
    return tuple(k for k in range(rank) if k not in gone), tuple(sorted(gone))


def kept_index(index: Shape, kept: Axes, keepdims: bool) -> Shape:
    """Return the result's index above an input's index."""
    if keepdims:
        return tuple(i if k in kept else 0 for k, i in enumerate(index))
    return tuple(index[k] for k in kept)


def fibre(index: Shape, rank: int, kept: Axes, gone: Axes, keepdims: bool) -> Callable[..., Shape]:
    """Return the map from reduced indices to input indices below one index of the result."""
    # Most reductions are along all axes or one.
    if not kept:
        return lambda *inner: inner
    whole: list[Extent] = [0] * rank
    for position, axis in enumerate(kept):
        whole[axis] = index[axis] if keepdims else index[position]
    if len(gone) == 1:
        before, behind = tuple(whole[: gone[0]]), tuple(whole[gone[0] + 1 :])

        def through(k: Extent) -> Shape:
            return (*before, k, *behind)

        return through

    def below(*inner: Extent) -> Shape:
        full = list(whole)
        for axis, k in zip(gone, inner, strict=True):
            full[axis] = k
        return tuple(full)

    return below


def reduction(
    fold: Callable[[Extent, Callable[..., Any]], Any],
    x: AnyTensor,
    axes: Axes | None,
    keepdims: bool,
) -> AnyTensor:
    """Fold the entries of x along the axes; fold is `sum_over`, `max_over` or alike."""
    kept, gone = split_axes(x.rank, axes)
    extents = tuple(x.shape[axis] for axis in gone)

    def entry(*index: Extent) -> Any:
        below = fibre(index, x.rank, kept, gone, keepdims)
        return fold(extents, lambda *inner: x[below(*inner)])

    return tabulate(reduced(x.shape, gone, keepdims), entry)


def sum_at(
    place: Extent,
    extents: Shape,
    position: Callable[..., Extent],
    term: Callable[..., Any],
    onto: Any = None,
) -> Any:
    """Add term(*j) over all j whose position is the place, as one sum that starts with onto.

    What is sent elsewhere is no part of the sum: neither its infinities nor its signs of zero.
    Of symbols nobody can tell where they lie; there a delta stands before every term.
    """
    if all(isinstance(n, int) for n in extents):
        sent = [(position(*j), j) for j in indices(extents)]
        if all(isinstance(p, int) for p, _ in (*sent, (place, ()))):
            terms = [term(*j) for p, j in sent if p == place]
            return sum_terms(terms if onto is None else [onto, *terms])
    return sent_to(place, extents, position, term, onto)


class Sent(OpenFunction):
    """A sum of what is sent to a place that is no int, dispatched on the place's type."""

    def __call__(self, place: object, *rest: Any) -> Any:
        """Apply the rule of the place's type."""
        return self.rule_for(type(place))(place, *rest)


sent_to = Sent("sent_to")


@sent_to.register(object)
def _with_deltas(
    place: Extent,
    extents: Shape,
    position: Callable[..., Extent],
    term: Callable[..., Any],
    onto: Any,
) -> Any:
    total: Any = sum_over(extents, lambda *j: kronecker(position(*j), place) * term(*j))
    return total if onto is None else onto + total


Prefixes = Callable[[Extent], Any]


class Running(OpenFunction):
    """A fold of first terms, by a count of them, dispatched on the extent's type."""

    def __call__(self, extent: object, term: Callable[[Extent], Any]) -> Prefixes:
        """Apply the rule of the extent's type."""
        found: Prefixes = self.rule_for(type(extent))(extent, term)
        return found


running_sum, running_product = Running("running_sum"), Running("running_product")


@running_sum.register(int)
def _sums(extent: int, term: Callable[[int], Any]) -> Prefixes:
    terms = [term(k) for k in range(extent)]
    return lambda count: sum_terms(terms[:count])


@running_sum.register(object)
def _sums_of_so_many(extent: Extent, term: Callable[[Extent], Any]) -> Prefixes:
    return lambda count: sum_over(count, term)


@running_product.register(int)
def _products(extent: int, term: Callable[[int], Any]) -> Prefixes:
    return products_of_first([term(k) for k in range(extent)]).__getitem__


@running_product.register(object)
def _products_of_so_many(extent: Extent, term: Callable[[Extent], Any]) -> Prefixes:
    return lambda count: product_over(count, term)


def along(
    fold: Running,
    x: AnyTensor,
    axis: int,
    reverse: bool,
    exclusive: bool,
    empty: Callable[[Any], Any],
) -> AnyTensor:
    """Fold the entries along an axis up to each one, it included or not, from either end.

    empty is what a fold of nothing is, given the entry that is left out.
    """
    axis %= x.rank
    extent = x.shape[axis]

    def turned(j: Extent) -> Extent:
        return extent - 1 - j if reverse else j

    def line(*i: Extent) -> Prefixes:
        return fold(extent, lambda j: x[(*i[:axis], turned(j), *i[axis:])])

    lines: AnyTensor = tabulate((*x.shape[:axis], *x.shape[axis + 1 :]), line)

    def entry(*i: Extent) -> Any:
        count = turned(i[axis]) + (0 if exclusive else 1)
        nothing = isinstance(count, int) and count == 0
        return empty(x[i]) if nothing else lines[(*i[:axis], *i[axis + 1 :])](count)

    return tabulate(x.shape, entry)


class Carrying(OpenFunction):
    """A recurrence along a row, dispatched on the extent's type."""

    def __call__(
        self, extent: object, term: Callable[[Extent], Any], factor: Callable[[Extent], Any]
    ) -> Callable[[Extent], Any]:
        """Apply the rule of the extent's type."""
        found: Callable[[Extent], Any] = self.rule_for(type(extent))(extent, term, factor)
        return found


carrying = Carrying("carrying")


@carrying.register(int)
def _carried(
    extent: int, term: Callable[[int], Any], factor: Callable[[int], Any]
) -> Callable[[int], Any]:
    factors = [factor(k) for k in range(1, extent)]
    return recurrence([term(k) for k in range(extent)], factors).__getitem__


@carrying.register(object)
def _carried_so_far(
    extent: Extent, term: Callable[[Extent], Any], factor: Callable[[Extent], Any]
) -> Callable[[Extent], Any]:
    def found(place: Extent) -> Any:
        factors = [factor(k) for k in range(1, place + 1)]
        return recurrence([term(k) for k in range(place + 1)], factors)[-1]

    return found


def carried_along(x: AnyTensor, terms: AnyTensor, axis: int, back: bool) -> AnyTensor:
    """Return r[k] = r[k - 1] x[k] + terms[k] along an axis; back, r[k + 1] x[k + 1] + terms[k]."""
    axis %= x.rank
    extent = x.shape[axis]

    def line(*i: Extent) -> Callable[[Extent], Any]:
        def at(j: Extent) -> Shape:
            return (*i[:axis], extent - 1 - j if back else j, *i[axis:])

        def factor(j: Extent) -> Any:
            return x[at(j - 1)] if back else x[at(j)]

        return carrying(extent, lambda j: terms[at(j)], factor)

    lines: AnyTensor = tabulate((*x.shape[:axis], *x.shape[axis + 1 :]), line)

    def entry(*i: Extent) -> Any:
        place = extent - 1 - i[axis] if back else i[axis]
        return lines[(*i[:axis], *i[axis + 1 :])](place)

    return tabulate(x.shape, entry)
