"""Warnings of worker processes: collected in a file, and told once, with their number.

Each worker would print the same warnings of torch and triton into the report.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, TextIO

MOST = 8
"""How many different warnings are told in full."""

EXPECTED = ("Unmoved",)
"""Categories that are left out: among drawn steps there are some that update nothing."""


def collect(path: Path) -> None:
    """Append the warnings of this process to a file, instead of printing them."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category.__name__ in EXPECTED:
            return
        said = {"warning": f"{category.__name__}: {message}", "place": f"{filename}:{lineno}"}
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(said) + "\n")

    warnings.showwarning = show


def read(path: Path) -> Counter[tuple[str, str]]:
    """Count the warnings in a file, by text and place; a line that is none counts as nothing."""
    found: Counter[tuple[str, str]] = Counter()
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            said: Any = json.loads(line)
            found[str(said["warning"]), str(said["place"])] += 1
        except (ValueError, KeyError, TypeError):
            continue
    return found


def tell(path: Path, out: TextIO | None = None) -> None:
    """Print each different warning in a file once, the most frequent first."""
    found = read(path)
    stream = sys.stderr if out is None else out
    for (said, place), times in found.most_common(MOST):
        often = "" if times == 1 else f" ({times} times)"
        print(f"warning{often}: {said} (at {place})", file=stream)
    if len(found) > MOST:
        print(f"and {len(found) - MOST} other warnings", file=stream)
