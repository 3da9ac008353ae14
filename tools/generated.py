"""What every generator of a committed file does: write it, or say that it is stale."""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path


def write_or_check(path: Path, text: str, module: str) -> int:
    """Write the file, or with --check compare it with what would be written; the exit code."""
    if "--check" not in sys.argv[1:]:
        path.write_text(text, encoding="utf-8")
        return 0
    committed = path.read_text(encoding="utf-8") if path.exists() else ""
    if committed == text:
        return 0
    lines = (committed.splitlines(True), text.splitlines(True))
    sys.stdout.writelines(unified_diff(*lines, path.name, "generated"))
    print(f"{path.name} is stale; write it anew with: python -m {module}", file=sys.stderr)
    return 1


def between(text: str, name: str, part: str) -> str:
    """Return a document with the part that stands between two lines of this name replaced."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, rest = text.split(begin)
    return f"{before}{begin}{part}\n{end}{rest.split(end)[1]}"
