"""The linter and the type checker look at every package: what is wrong in one is found there."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.tree import PACKAGES, ROOT

UNTYPED = {"fast"}
"""What mypy follows and does not report."""


def checked(root: Path, *command: str) -> str:
    """Run a checker, with the settings of this repository, in a tree; return what it printed."""
    (root / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_prose_that_is_no_sentence_is_found(
    tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    for package in PACKAGES:
        plant(f"{package}/wrong/rows.py", '"""no sentence"""\n')
    said = checked(tmp_path, "ruff", "check", "--no-cache", "--output-format", "concise")
    for package in PACKAGES:
        assert f"{package}/wrong/rows.py:1:1: D400" in said


@pytest.mark.slow
def test_wrong_types_are_found(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    for package in PACKAGES:
        plant(f"{package}/__init__.py", "")
        plant(f"{package}/rows.py", "def length() -> int:\n    return 'long'\n")
    said = checked(tmp_path, "mypy", "--cache-dir", str(tmp_path / "cache"))
    assert {line.partition("/")[0] for line in said.splitlines() if ": error: " in line} == (
        PACKAGES.keys() - UNTYPED
    )


def test_what_is_typed_is_all_but_fast() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(project["tool"]["mypy"]["files"]) == PACKAGES.keys() - UNTYPED
