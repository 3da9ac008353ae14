"""Fixtures of the house rules."""

from __future__ import annotations

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


@pytest.fixture
def plant(tmp_path: Path) -> Callable[[str, str], None]:
    """Return what writes one file of a small tree that breaks a rule on purpose."""

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return write
