"""What a watched launch is found guilty of, and where in the kernel's own lines.

The compiler writes a location at the end of an operation of TTIR: `"file":line:column`, a name
around another location, or a call site, which has the line within the function that was called,
then the line of the call. The innermost line is wanted, and comes first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["race", "read out of bounds", "write out of bounds", "undefined", "not judged"]
"""`undefined`: the compiler's language gives the operation no result, as for two lanes of one store
that put different numbers in one place. `not judged`: the launch could not be watched, which is no
better than a fault."""

_FIRST = re.compile(r' loc\(.*?"(?P<path>[^"]+)":(?P<line>\d+):\d+')


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a kernel, the path as the compiler knows it; line 0 where none is known."""

    path: str = ""
    line: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: `{self.text}`" if self.line else "no line is known"


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


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one launch."""

    kind: Kind
    kernel: str
    place: Place
    says: str

    def __str__(self) -> str:
        return f"{self.kind} in {self.kernel}, {self.place}: {self.says}"


class Faulty(Exception):
    """Ends the host whose launch has a fault, as nothing that it would compute on is known."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault
