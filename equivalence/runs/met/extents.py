"""Extents that the fixed cases of a row meet: two axes of one tensor together, and squares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

from equivalence.cases.call import CaseSpec, Shape
from equivalence.cases.families.table import family_of
from equivalence.registry import OPS

Pair = tuple[str, int, int, int, str, str]
"""A tensor, its rank, two of its axes, and the size class of each."""

Square = tuple[int, Any, Any]
"""A rank, the axis that the call works along, and whether it keeps axes.

The axis is None where a call may not choose it. Whether axes are kept is told up to rank 4.
"""

KEPT = 4

CLASSES = {
    "1": range(1, 2),
    "2 to 16": range(2, 17),
    "17 to 128": range(17, 129),
    "129 to 256": range(129, 257),
    "beyond 256": range(257, 10**9),
}
"""The size classes of one axis: its tiles are of 16 to 256 entries."""

MOST_AXES = 3
"""The ranks up to this one are looked at for pairs."""

RANKED = {
    "products": (2,),
    "batches of products": (3,),
    "linear layers": (2,),
    "norms": (2, 3, 4, 5, 6),
    "groups": (2, 3, 4, 5),
    "channels": (2, 3, 4, 5),
    "codes": (2,),
    "lookups": (2,),
    "losses of labels": (2, 3, 4),
    "triangles": (2, 3, 4),
    "broadcasts": (2, 3, 4),
}
"""The ranks of squares that a family takes, where they are not all of two to six."""

FREE = ("reductions", "positions", "rows", "flips", "slices", "concatenations", "picks", "takes")
"""The families that take any axis."""

NO_SQUARE = {
    "classes": "positions are written down, whose shape is any",
    "lookups": "the table is no first input",
    "random": "a shape alone is square, which any draw fills",
}
"""By family: why no first input is square."""


def axes_of(case: CaseSpec) -> tuple[Any, ...]:
    """Return the axes that a call names, counted from the front; a lone None for none."""
    attributes, rank = case.attributes(), len(case.shapes[0])
    named = attributes.get("axes", attributes.get("axis"))
    if named is None:
        return (None,)
    many = named if isinstance(named, tuple) else (named,)
    return tuple(axis % rank for axis in many)


def pairs_met(cases: Sequence[CaseSpec]) -> set[Pair]:
    """Return which size classes meet on two axes of a tensor."""
    return {
        (tensor, len(shape), one, other, sizes[one], sizes[other])
        for case in cases
        for tensor, shape in _shapes(case)
        if 1 < len(shape) <= MOST_AXES and 0 not in shape
        for sizes in ([_class_of(extent) for extent in shape],)
        for one, other in combinations(range(len(shape)), 2)
    }


def squares_met(cases: Sequence[CaseSpec]) -> set[Square]:
    """Return along which axes squares of which rank are taken, and whether axes are kept."""
    return {
        (len(shape), axis, case.attributes().get("keepdims") if len(shape) <= KEPT else None)
        for case in cases
        for shape in (case.shapes or (case.attributes()["shape"],))[:1]
        if len(shape) > 1 and len(set(shape)) == 1 and shape[0] > 1
        for axis in (axes_of(case) if family_of(OPS[case.op]).name in FREE else (None,))
    }


def squares_wanted(op: str) -> set[Square]:
    """Return the squares that a row of an op should meet.

    An op that takes any axis meets each of them, and one that can keep axes does both.
    """
    family = family_of(OPS[op]).name
    if family in NO_SQUARE:
        return set()
    ranks = RANKED.get(family, (2, 3, 4, 5, 6))
    along = {rank: range(rank) if family in FREE else (None,) for rank in ranks}
    keeps: tuple[Any, ...] = (False, True) if "keepdims" in OPS[op].attributes else (None,)
    return {
        (rank, axis, kept)
        for rank in ranks
        for axis, kept in product(along[rank], keeps if rank <= KEPT else (None,))
    }


def _class_of(extent: int) -> str:
    return next(name for name, among in CLASSES.items() if extent in among)


def _shapes(case: CaseSpec) -> Iterator[tuple[str, Shape]]:
    """Yield the shape of each input and of each result, by name."""
    variadic = OPS[case.op].variadic
    for k, shape in enumerate(case.shapes):
        yield f"input {k % 2 if variadic else k}", shape
    for name, result in case.results().items():
        yield name, tuple(result.shape)
