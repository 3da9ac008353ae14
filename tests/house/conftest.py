"""Fixtures of the house rules."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.tree import PACKAGES, ROOT

COPIED = (*PACKAGES, "proofs_notes", "tools", "tests")


def copied_tree(folder: Path) -> Path:
    """Copy the sources into a folder, so that a test may add to them; return the copy."""
    for top in COPIED:
        shutil.copytree(ROOT / top, folder / top, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")
    return folder


def enter(table: Path, line: str, name: str) -> None:
    """Enter a page in the table of a room: an import, and a name at the end of the only `for`."""
    text = table.read_text(encoding="utf-8")
    entered, count = re.subn(r" in \(([^)]*?),?\s*\)\}", rf" in (\1, {name})}}", text)
    assert count == 1, f"{table} has {count} tables"
    first = entered.index("\nfrom ", entered.index("from __future__") + 1) + 1
    table.write_text(entered[:first] + line + "\n" + entered[first:], encoding="utf-8")


@pytest.fixture
def plant(tmp_path: Path) -> Callable[[str, str], None]:
    """Return what writes one file of a small tree that breaks a rule on purpose."""

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return write
