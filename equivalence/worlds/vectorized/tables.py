"""Entries that are asked for again and again: each is computed once, and read from a table.

A page that sees a tensor under another shape asks for what a row has in common at an index for each
entry of the row. Behind such an index there may be a sum over the row. Formed for each entry anew,
it would take a number for each pair of entries, and behind another sum, for each three.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from equivalence.worlds.vectorized.extents import kept_by_index
from equivalence.worlds.vectorized.numbers import Many, Truth, current
from equivalence.worlds.vectorized.terms import VectorExtent, at_new_axes
from spec import scalar

Box: TypeAlias = tuple[tuple[int, int], ...]
"""Along each axis, the first index that is asked for, and the one behind the last."""


def box_of_repeats(index: tuple[Any, ...]) -> Box | None:
    """Return the box around all places of an index, or None if it has as many entries, or more.

    >>> i = np.arange(6)
    >>> box_of_repeats((i // 3, 1)), box_of_repeats((i // 3, i % 3))
    (((0, 2), (1, 2)), None)
    """
    arrays = [i if isinstance(i, np.ndarray) else np.asarray(operator.index(i)) for i in index]
    places = math.prod(np.broadcast_shapes(*(a.shape for a in arrays)))
    if places < 2:
        return None
    box = tuple((int(a.min()), int(a.max()) + 1) for a in arrays)
    return box if places > math.prod(end - start for start, end in box) else None


@scalar.remembered.register(VectorExtent)
def _remembered(extent: VectorExtent, entry: Callable[..., Any]) -> Callable[..., Any]:
    """Keep what is asked for by its index, and a table of each box in which indices repeat."""
    tables: dict[Box, Any] = {}

    def found(*index: Any) -> Any:
        box = box_of_repeats(index)
        if box is None:
            return entry(*index)
        if box not in tables:
            tables[box] = _table(entry, box)
        table = tables[box]
        if table is None:
            return entry(*index)
        place = tuple(i - start for i, (start, _) in zip(index, box, strict=True))
        return _each(table, lambda a: a[place])

    return kept_by_index(extent, found)


def _table(entry: Callable[..., Any], box: Box) -> Any:
    """Return the entries of a box, or None if they are not such as a table may hold.

    A constant stays one. What is no number, or depends on axes beside the index, has no table.
    """
    shape, depth = tuple(end - start for start, end in box), current().axes

    def shifted(*place: Any) -> Any:
        return entry(*(i + start for i, (start, _) in zip(place, box, strict=True)))

    found = at_new_axes(shape, shifted)
    sizes = [a.shape for a in _arrays(found)]
    wide = (*shape, *(1,) * depth)
    if max(map(math.prod, sizes), default=1) < 2 or not all(_fits(one, wide) for one in sizes):
        return None
    return _each(found, lambda a: _laid(a, wide).reshape(shape))


def _fits(sizes: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    """Say whether an array has entries along the axes of a table alone."""
    here = sizes[max(len(sizes) - len(wide), 0) :]
    along = wide[len(wide) - len(here) :]
    within = all(n in (1, most) for n, most in zip(here, along, strict=True))
    return within and math.prod(here) == math.prod(sizes)


def _laid(a: Any, wide: tuple[int, ...]) -> Any:
    """Repeat an array along axes that it does not depend on; those in front have one entry."""
    return np.broadcast_to(a.reshape(a.shape[max(a.ndim - len(wide), 0) :]), wide)


def _arrays(x: Any) -> list[npt.NDArray[Any]]:
    """Return the arrays of numbers or answers; of anything else, there are none."""
    if isinstance(x, Many | Truth):
        pair = (x.v, x.b) if isinstance(x, Many) else (x.value, x.known)
        return [np.asarray(a) for a in pair if a is not None]
    return [x] if isinstance(x, np.ndarray) else []


def _each(x: Any, change: Callable[[Any], Any]) -> Any:
    """Change each array of numbers or answers."""
    if isinstance(x, Many):
        return Many(change(x.v), None if x.b is None else change(x.b))
    if isinstance(x, Truth):
        return Truth(change(x.value), None if x.known is None else change(x.known))
    return change(x)
