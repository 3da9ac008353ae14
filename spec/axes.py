"""Chapter 8. Axes: what all reductions share.

A reduction splits the axes of its input into those it keeps and those it reduces.

>>> split_axes(3, (-1,))
((0, 1), (2,))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spec.op import AnyTensor, Type, refuse
from spec.scalar import Extent
from spec.shape import Shape, normalize_axis, reduced
from spec.tensor import tabulate

Axes = tuple[int, ...]


def check_axes(name: str, x: Type, axes: Axes | None) -> Axes:
    """Return the axes counted from the front; C1: each in range, C2: distinct; None: all."""
    rank = len(x.shape)
    if axes is None:
        return tuple(range(rank))
    normal = [normalize_axis(axis, rank) for axis in axes]
    if any(axis is None for axis in normal):
        raise refuse(f"{name} C1", f"every axis lies in [-{rank}, {rank})", f"{axes} for {x}")
    if len(set(normal)) != len(normal):
        raise refuse(f"{name} C2", "the axes are distinct", f"{axes} for {x}")
    return tuple(axis for axis in normal if axis is not None)


def check_axis(label: str, x: Type, axis: int) -> int:
    """Return one axis counted from the front, or refuse under the label."""
    normal = normalize_axis(axis, len(x.shape))
    if normal is None:
        rank = len(x.shape)
        raise refuse(label, f"the axis lies in [-{rank}, {rank})", f"{axis} for {x}")
    return normal


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
    whole: list[Extent] = [0] * rank
    for position, axis in enumerate(kept):
        whole[axis] = index[axis] if keepdims else index[position]

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
