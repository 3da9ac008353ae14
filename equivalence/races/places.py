"""The line of Python that an operation of TTIR was compiled from.

The compiler writes a location at the end of an operation: `"file":line:column`, a name around
another location, or a call site, which has the line within the function that was called, then the
line of the call. The innermost line is wanted, and comes first.
"""

from __future__ import annotations

import re
from pathlib import Path

from equivalence.races.fault import Place

_FIRST = re.compile(r' loc\(.*?"(?P<path>[^"]+)":(?P<line>\d+):\d+')


def place_of(operation: str) -> Place:
    """Return the line that an operation comes from; a place without one if it does not say."""
    found = _FIRST.search(operation, max(operation.rfind(" loc("), 0))
    if found is None:
        return Place()
    file, line, here = Path(found["path"]), int(found["line"]), Path.cwd()
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    shown = file.relative_to(here) if file.is_relative_to(here) else file
    return Place(str(shown), line, text)
