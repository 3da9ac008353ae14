"""What the ops share that act on rows: what a row needs to show anything."""

from __future__ import annotations

from equivalence.cases.families.family import Call
from equivalence.cases.guard import place

MOST_ALONG = {"value": 600, "vjp": 300, "jvp": 300}
"""So many entries, at most, lie in rows with others beside them; derivatives cost more."""


def a_row_has_two_entries(call: Call) -> bool:
    """A row of one entry is what it is whatever the entry is."""
    axis: int = call.attributes.get("axis", -1)
    return call.shapes[0][axis] > 1


def entries_of_a_row_differ(call: Call) -> bool:
    """Of a row of equal entries the value is known, and the cotangent sends nothing back."""
    axis: int = call.attributes.get("axis", -1)
    varies = "seed_layout" if call.direction == "vjp" else "layout_0"
    strides = place(call.shapes[0], call.levels.get(varies, "contiguous")).strides
    flat = call.direction != "vjp" and call.levels.get("regime_0") == "constant"
    return strides[axis] > 0 and not (flat and axis in (-1, len(call.shapes[0]) - 1))
