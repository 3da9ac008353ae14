"""Chapter 5. Shapes: finite sets of indices, laid out row by row.

A shape is a tuple of extents, outermost first; the scalar's shape is ``()``.
Everything here is exact arithmetic on integers, and several functions are *partial*: they return
None where the mathematics has no answer, and the caller, who knows the rule's name, refuses.

>>> strides((2, 3, 4)), size((2, 3, 4)), size(())
((12, 4, 1), 24, 1)
>>> broadcast((2, 1, 4), (3, 1)), broadcast((2,), (3,))
((2, 3, 4), None)
>>> list(indices((2, 2)))
[(0, 0), (0, 1), (1, 0), (1, 1)]
"""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Iterator, Sequence

from spec.scalar import Extent

Shape = tuple[Extent, ...]


def size(shape: Shape) -> Extent:
    """Count the indices of a shape; the empty product is 1."""
    count: Extent = 1
    for extent in shape:
        count = count * extent
    return count


def strides(shape: Shape) -> Shape:
    """Return how far apart neighbours along each axis lie in row-major order."""
    steps: list[Extent] = []
    step: Extent = 1
    for extent in reversed(shape):
        steps.append(step)
        step = step * extent
    return tuple(reversed(steps))


def offset(shape: Shape, index: Shape) -> Extent:
    """Return the row-major position of an index."""
    position: Extent = 0
    for extent, i in zip(shape, index, strict=True):
        position = position * extent + i
    return position


def unravel(shape: Shape, position: Extent) -> Shape:
    """Return the index at a row-major position; the inverse of `offset`.

    >>> unravel((2, 3), 5)
    (1, 2)
    """
    index: list[Extent] = []
    for step in strides(shape):
        index.append(position // step)
        position = position % step
    return tuple(index)


def indices(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all indices of a shape in row-major order."""
    return itertools.product(*(range(extent) for extent in shape))


def normalize_axis(axis: object, rank: int) -> int | None:
    """Return an axis in [-rank, rank) counted from the front, or None if it is no axis.

    >>> normalize_axis(-1, 3), normalize_axis(3, 3)
    (2, None)
    """
    if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
        return None
    return axis % rank


def reduced(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """Return the shape after the given axes are reduced; keepdims leaves extent 1 in their place.

    >>> reduced((2, 3, 4), (1,), False), reduced((2, 3, 4), (1,), True)
    ((2, 4), (2, 1, 4))
    """
    if keepdims:
        return tuple(1 if k in axes else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def broadcast(left: Shape, right: Shape) -> Shape | None:
    """Return the common shape of two operands by NumPy's rule, or None if there is none."""
    merged: list[Extent] = []
    for a, b in itertools.zip_longest(reversed(left), reversed(right), fillvalue=1):
        if a != b and a != 1 and b != 1:
            return None
        merged.append(b if a == 1 else a)
    return tuple(reversed(merged))


def is_extent(n: Extent) -> bool:
    """Tell whether n can count something: an int >= 0, or a symbol, which stands for any.

    >>> is_extent(0), is_extent(-1), is_extent(2.0), is_extent(True), is_extent("a")
    (True, False, False, False, False)
    """
    return (type(n) is int and n >= 0) or not isinstance(n, (numbers.Number, str, type(None)))


def broadcasts_to(source: Shape, target: Shape) -> bool:
    """Tell whether target is a shape in which source, aligned right, fits or repeats from 1."""
    return broadcast(source, target) == target and all(is_extent(n) for n in target)


def windows(extent: int, kernel: int, stride: int, padding: int) -> int:
    """Count the positions of a sliding window, 0 where none fits.

    >>> windows(5, 3, 2, 1), windows(1, 3, 1, 0)
    (3, 0)
    """
    if kernel <= 0 or stride <= 0 or extent + 2 * padding < kernel:
        return 0
    return (extent + 2 * padding - kernel) // stride + 1
