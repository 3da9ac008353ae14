"""Writes docs/pictures: each is what the program of a document above it draws.

python -m tools.generate_pictures            write them
python -m tools.generate_pictures --check    fail if a committed file is stale

Where a document shows a picture of docs/pictures, its Python blocks above it are run, as one
program, and the name `drawn` holds the picture's text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tools.generated import write_or_check
from tools.tree import ROOT

DOCUMENTS = ("README.md", "docs/worlds.md")

OTHERS = ("growth.svg",)
"""Pictures that are drawn from numbers: tools.generate_growth writes them."""

FOLDER = ROOT / "docs" / "pictures"

PART = re.compile(
    r"^```python\n(.*?)^```$|^!\[[^\]]+\]\(([\w/.-]+\.svg)\)$", re.MULTILINE | re.DOTALL
)
"""A block of Python, or a picture on a line of its own."""


def pictures(document: str) -> Iterator[tuple[Path, str]]:
    """Run the blocks of a document, and return each picture's path and text on the way."""
    names: dict[str, Any] = {"__name__": "__main__"}
    path = ROOT / document
    for code, shown in PART.findall(path.read_text(encoding="utf-8")):
        if shown:
            yield (path.parent / shown).resolve(), f"{names['drawn']}\n"
        else:
            with redirect_stdout(StringIO()):
                exec(compile(code, document, "exec"), names)


def shown() -> dict[Path, str]:
    """Return every picture's text by its path; no document runs beyond its last picture."""
    found: dict[Path, str] = {}
    for document in DOCUMENTS:
        wanted = sum(bool(name) for _, name in PART.findall((ROOT / document).read_text("utf-8")))
        for _, (path, text) in zip(range(wanted), pictures(document), strict=False):
            found[path] = text
    return found


def main() -> int:
    """Write or check every picture; one that no document shows is stale too."""
    FOLDER.mkdir(exist_ok=True)
    found = shown()
    codes = [write_or_check(path, text, "tools.generate_pictures") for path, text in found.items()]
    others = {FOLDER / name for name in OTHERS}
    left = sorted(set(FOLDER.iterdir()) - set(found) - others)
    for path in left:
        print(f"{path.name} is shown by no document; remove it", file=sys.stderr)
    return int(any(codes) or bool(left))


if __name__ == "__main__":
    sys.exit(main())
