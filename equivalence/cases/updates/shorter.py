"""What an interpreter is asked of a case: fewer steps and elements, as it takes so long."""

from __future__ import annotations

import math
from dataclasses import replace

from equivalence.cases.call import Shape
from equivalence.cases.updates.spec import UpdateSpec

MOST_ELEMENTS = 4096
"""How many elements of a parameter an interpreter updates: a few blocks."""

MOST_STEPS = 32
"""How many steps an interpreter takes."""


def shorter(case: UpdateSpec) -> tuple[UpdateSpec, tuple[str, ...]]:
    """Return what is left of a case, and say what is left out, if anything is."""
    shapes = tuple(map(_smaller, case.shapes))
    steps = min(case.steps, MOST_STEPS)
    left_out = (
        *((f"interpreted: more than {MOST_ELEMENTS} elements",) if shapes != case.shapes else ()),
        *((f"interpreted: more than {MOST_STEPS} steps",) if steps != case.steps else ()),
    )
    return replace(case, shapes=shapes, steps=steps), left_out


def _smaller(shape: Shape) -> Shape:
    """Shorten the first axis of a shape that has too many elements."""
    if math.prod(shape) <= MOST_ELEMENTS:
        return shape
    return max(1, MOST_ELEMENTS // math.prod(shape[1:])), *shape[1:]
