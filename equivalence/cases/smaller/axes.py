"""Calls with an axis of one entry less: whatever names an axis is numbered anew.

Which of these calls there are, the page's type rule says; here they are only written down.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from equivalence.cases.call import CaseSpec, Shape
from equivalence.registry import OPS

Pairs = tuple[tuple[str, Any], ...]

NAMING = ("axis", "axes")
"""Attributes that name axes by their numbers."""

BY_AXIS = ("before", "after")
"""Attributes with an entry for each axis."""

TARGET = "shape"
"""The attribute that is a shape itself."""


def without_an_axis(case: CaseSpec) -> Iterator[CaseSpec]:
    """Yield the case without one of its axes of one entry, in each way in which shapes may fit.

    The inputs are those of the first one's rank, or all of them, aligned at either end.
    """
    first = case.shapes[0] if case.shapes else ()
    for axis in (k for k, n in enumerate(first) if n == 1):
        for dropped in _ways(case.shapes, axis):
            for attrs in _attributes(case, axis):
                yield replace(case, shapes=dropped, attrs=attrs)
    yield from _of_targets(case)


def _ways(shapes: Sequence[Shape], axis: int) -> Iterator[tuple[Shape, ...]]:
    """Yield shapes without an axis of the first one, which other inputs may share."""
    rank = len(shapes[0])
    alike: Callable[[Shape], int] = lambda shape: axis if len(shape) == rank else -1  # noqa: E731
    places: tuple[Callable[[Shape], int], ...] = (
        alike,
        lambda shape: axis,
        lambda shape: axis - rank + len(shape),
    )
    for place in places:
        yield tuple(_dropped(shape, place(shape)) for shape in shapes)


def _dropped(shape: Shape, axis: int) -> Shape:
    """Return a shape without an axis, if there is one of one entry."""
    if not 0 <= axis < len(shape) or shape[axis] != 1:
        return shape
    return (*shape[:axis], *shape[axis + 1 :])


def _attributes(case: CaseSpec, axis: int) -> Iterator[Pairs]:
    """Yield the attributes of a call without an axis; also without the one that named it."""
    rank = len(case.shapes[0])
    page = OPS[case.op].attributes
    pairs: list[tuple[str, Any]] = []
    optional: list[str] = []
    for name, value in case.attrs:
        changed, named = _renumbered(name, value, axis, rank)
        pairs.append((name, changed))
        if named and page.get(name, inspect.Parameter.empty) is not inspect.Parameter.empty:
            optional.append(name)
    yield tuple(pairs)
    if optional:
        yield tuple(pair for pair in pairs if pair[0] not in optional)
    # Where the axis that was named is gone, the last one may do as well.
    for at, (name, value) in enumerate(case.attrs):
        if name == "axis" and value in (axis, axis - rank):
            yield (*pairs[:at], (name, -1), *pairs[at + 1 :])


def _renumbered(name: str, value: Any, axis: int, rank: int) -> tuple[Any, bool]:
    """Return the value of an attribute without an axis, and whether it named the axis."""
    if name == "axis" and type(value) is int:
        return _moved(value, axis, rank), value in (axis, axis - rank)
    if name == "axes" and isinstance(value, tuple):
        kept = [_moved(k, axis, rank) for k in value if k not in (axis, axis - rank)]
        return tuple(kept), len(kept) < len(value)
    if name in BY_AXIS and isinstance(value, tuple) and len(value) == rank:
        return (*value[:axis], *value[axis + 1 :]), False
    return value, False


def _moved(named: int, axis: int, rank: int) -> int:
    """Return the number of an axis when another one is gone; it counts from the same end."""
    if named < 0:
        return named + 1 if named + rank < axis else named
    return named - 1 if named > axis else named


def _of_targets(case: CaseSpec) -> Iterator[CaseSpec]:
    """Yield the case with an axis of one entry less in the shape that it asks for.

    With it goes such an axis of the input, if it has one, or none.
    """
    for at, (name, value) in enumerate(case.attrs):
        if name != TARGET or not isinstance(value, tuple):
            continue
        for axis in (k for k, n in enumerate(value) if n == 1):
            pair = (name, (*value[:axis], *value[axis + 1 :]))
            attrs = (*case.attrs[:at], pair, *case.attrs[at + 1 :])
            yield replace(case, attrs=attrs)
            for k in (k for k, n in enumerate(case.shapes[0] if case.shapes else ()) if n == 1):
                shapes = (_dropped(case.shapes[0], k), *case.shapes[1:])
                yield replace(case, shapes=shapes, attrs=attrs)
