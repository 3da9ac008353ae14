"""Runs every generator of committed files, each after those whose files it reads.

    python -m tools.generate            write all of them anew
    python -m tools.generate --check    say which are stale, and exit 1 if any is

The generators are the modules `tools/generate_*.py`. Each runs in a process of its own, since what
one writes may be imported by the next: the protocols are Python, and come first.
"""

from __future__ import annotations

import subprocess
import sys

from tools.tree import ROOT

FIRST = "tools.generate_protocols"


def generators() -> list[str]:
    """Return the modules of the generators, in their order."""
    found = [f"tools.{path.stem}" for path in sorted((ROOT / "tools").glob("generate_*.py"))]
    return sorted(found, key=lambda name: name != FIRST)


def main(arguments: list[str]) -> int:
    """Run them all, whatever one says; the exit code is 1 if one failed."""
    codes = [
        subprocess.run([sys.executable, "-m", name, *arguments], cwd=ROOT, check=False).returncode
        for name in generators()
    ]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
