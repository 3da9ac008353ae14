"""Chapter 26. Shapes that meet: those of a sum, and those of a product of any ranks.

>>> common("add", (2, 1), (3,))
(2, 3)
>>> product_axes((5, 2, 3), (3, 4)), product_axes((3,), (7, 3, 4))
(((5,), (2,), (4,)), ((7,), (), (4,)))
"""

from __future__ import annotations

import math

from spec.refusals import refuse
from spec.shape import Shape, broadcast


def common(who: str, *shapes: Shape) -> Shape:
    """Return the shape to which NumPy broadcasts all of these; who is named where there is none."""
    found: Shape = ()
    for shape in shapes:
        both = broadcast(found, shape)
        if both is None:
            came = " and ".join(map(str, shapes))
            raise refuse(who, "the shapes broadcast to a common one", came)
        found = both
    return found


def product_axes(left: Shape, right: Shape) -> tuple[Shape, Shape, Shape]:
    """Return the axes of a product by torch's rules: of its batch, its rows and its columns.

    A vector in front is a row, and one behind a column, whose axis of one the result lacks.
    """
    came = f"{left} and {right}"
    if not left or not right:
        raise refuse("matmul", "each operand has an axis at least; * takes single numbers", came)
    if left[-1] != right[-2 if len(right) > 1 else -1]:
        raise refuse("matmul C2", "the inner extents are equal", came)
    lead = common("matmul", left[:-2], right[:-2])
    return lead, left[-2:-1], right[-1:] if len(right) > 1 else ()


def is_shared(shape: Shape) -> bool:
    """Say whether one matrix stands for all places of a batch."""
    return math.prod(shape[:-2]) == 1
