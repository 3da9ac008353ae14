"""The size classes of extents: lengths that stand for each other."""

from __future__ import annotations

from typing import Any

CLASSES = (16, 129, 513)
"""The largest extents of the size classes: a vector, a tile and its neighbours, some tiles."""

EXTENTS = ("extent", "batch", "rows", "inner", "columns", "classes")
"""The factors whose levels are extents."""


def size_class(name: str, level: Any) -> Any:
    """Return the size class of an extent.

    In pairs of levels, extents of one class stand for each other. An extent of 1 is a class of its
    own. So is every level of any other factor.
    """
    if name not in EXTENTS or not isinstance(level, int) or level == 1:
        return level
    return next((f"at most {most}" for most in CLASSES if level <= most), f"above {CLASSES[-1]}")
