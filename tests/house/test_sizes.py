"""How long a file may grow before a reader would rather have two.

A page fits on a screen and a half, a chapter in one sitting. Where a longer file is the better
one, a comment in it says `longer than the guide because ...`, and the rule believes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tools.tree import PACKAGES, ROOT, python_files

GUIDE = {"spec/ops": 120, "spec/optim": 120, "spec": 250}
"""The most lines of a file, by the most specific folder."""

USUAL = 350
"""The most lines of a file in the other packages."""

EXCUSE = "longer than the guide because"


def long_files(root: Path) -> Iterator[str]:
    """Say which files are longer than their folder's guide and do not say why."""
    for folder in PACKAGES:
        for path in python_files(root, folder):
            where = path.relative_to(root)
            guide = GUIDE.get(where.parent.as_posix(), GUIDE.get(folder, USUAL))
            text = path.read_text(encoding="utf-8")
            lines = len(text.splitlines())
            if lines > guide and EXCUSE not in text:
                yield (
                    f"{where} has {lines} lines and the guide is {guide}: split it where a reader "
                    f"would pause, or write a comment '{EXCUSE} ...'"
                )


def test_files_are_short() -> None:
    found = list(long_files(ROOT))
    assert not found, "\n".join(found)


def test_planted_long_files_are_found(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    plant("spec/ops/add.py", "x\n" * 121)
    plant("spec/tape.py", "x\n" * 250)
    plant("fast/tape.py", "x\n" * 351)
    plant("equivalence/cases/call.py", "x\n" * 351)
    plant("population/table.py", "x\n" * 351)
    plant("equivalence/table.py", f"# {EXCUSE} it is one table\n" + "x\n" * 400)
    found = [line.split(" and ")[0] for line in long_files(tmp_path)]
    assert found == [
        "spec/ops/add.py has 121 lines",
        "fast/tape.py has 351 lines",
        "equivalence/cases/call.py has 351 lines",
        "population/table.py has 351 lines",
    ]
