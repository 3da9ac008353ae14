"""Writes the table of docs/interpreters.md that says what the engine which compiles can do.

Its lines are tools/engine_features.py, and a test runs each (tests/fast/compiled/test_features.py).
"""

from __future__ import annotations

import sys

from tools.engine_features import table
from tools.generated import between, write_or_check
from tools.tree import ROOT

DOCUMENT = ROOT / "docs" / "interpreters.md"


def main() -> int:
    """Write the table, or with --check compare it."""
    text = between(DOCUMENT.read_text(encoding="utf-8"), "engine", table())
    return write_or_check(DOCUMENT, text, "tools.generate_engine")


if __name__ == "__main__":
    sys.exit(main())
