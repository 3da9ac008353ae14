"""Shapes that meet: those of a sum, and those of products of any ranks; twin of spec.products."""

from __future__ import annotations

import math

from fast.errors import Rejected

Shape = tuple[int, ...]


def common(name: str, *shapes: Shape) -> Shape:
    """Return the shape to which NumPy would broadcast these, or raise naming all."""
    rank = max(map(len, shapes))
    found = []
    for extents in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wide = {n for n in extents if n != 1} or {1}
        if len(wide) > 1:
            came = " and ".join(map(str, shapes))
            raise Rejected(f"{name}: the shapes broadcast to a common one; got {came}")
        found += wide
    return tuple(found)


def product_axes(left: Shape, right: Shape) -> tuple[Shape, Shape, Shape]:
    """Return the axes of a product by torch's rules: of its batch, its rows and its columns.

    A vector in front is a row, and one behind a column, whose axis of one the result lacks.
    Raises `Rejected` for operands without axes, for inner extents that differ (C2), and for batches
    that do not broadcast.
    """
    if not left or not right:
        raise Rejected(
            "matmul: each operand has an axis at least; * takes single numbers; "
            f"got {left} and {right}"
        )
    if left[-1] != right[-2 if len(right) > 1 else -1]:
        raise Rejected(f"matmul C2: the inner extents are equal; got {left} and {right}")
    lead = common("matmul", left[:-2], right[:-2])
    return lead, left[-2:-1], right[-1:] if len(right) > 1 else ()


def is_shared(shape: Shape) -> bool:
    """Say whether one matrix stands for all places of a batch."""
    return math.prod(shape[:-2]) == 1
