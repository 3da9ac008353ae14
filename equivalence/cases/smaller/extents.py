"""Smaller extents of a call: those at which kernels of blocks and vectors differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from equivalence.cases.call import CaseSpec, Shape

SMALL = (1, 2, 3, 5)
"""Extents to try first: alone, a pair, and what fills no vector and no block."""


def lower_extents(extent: int, least: int = 0) -> list[int]:
    """Return smaller extents to try, the smallest first.

    They are the small ones, a half and one more, one more than each power of two, and one less.

    >>> lower_extents(65, 1)
    [1, 2, 3, 5, 9, 17, 32, 33, 64]
    """
    beyond = (2**k + 1 for k in range(2, max(extent, 1).bit_length()))
    tried = {least, *SMALL, extent // 2, extent // 2 + 1, *beyond, extent - 1}
    return sorted(n for n in tried if least <= n < extent)


def with_lower_extents(case: CaseSpec) -> Iterator[CaseSpec]:
    """Yield the case with one extent lowered: wherever it stands, or at one axis alone."""
    shapes = case.shapes or (case.attributes().get("shape", ()),)
    for extent in sorted({n for shape in shapes for n in shape}, reverse=True):
        for lower in lower_extents(extent, min(extent, 1)):
            yield renamed(case, extent, lower)
    first = shapes[0]
    for axis, extent in enumerate(first):
        if first.count(extent) > 1:
            for lower in lower_extents(extent, min(extent, 1)):
                yield _at_axis(case, axis, lower)


def renamed(case: CaseSpec, extent: int, lower: int) -> CaseSpec:
    """Change an extent wherever it occurs, in a target shape too, so that types still fit."""

    def rename(shape: Sequence[int]) -> Shape:
        return tuple(lower if n == extent else n for n in shape)

    # An interval moves to the front, where it stays within a shorter axis.
    fits = {"start": lower // 2, "length": lower - lower // 2}
    return replace(
        case,
        shapes=tuple(rename(shape) for shape in case.shapes),
        attrs=tuple(
            (n, rename(v) if n == "shape" else min(v, fits[n]) if n in fits else v)
            for n, v in case.attrs
        ),
    )


def _at_axis(case: CaseSpec, axis: int, lower: int) -> CaseSpec:
    """Change the extent of one axis, in all inputs that have the axes of the first one."""
    rank = len(case.shapes[0]) if case.shapes else 0

    def changed(shape: Shape) -> Shape:
        same = len(shape) == rank and shape[axis] == case.shapes[0][axis]
        return (*shape[:axis], lower, *shape[axis + 1 :]) if same else shape

    if case.shapes:
        return replace(case, shapes=tuple(map(changed, case.shapes)))
    pairs = ((n, (*v[:axis], lower, *v[axis + 1 :]) if n == "shape" else v) for n, v in case.attrs)
    return replace(case, attrs=tuple(pairs))
