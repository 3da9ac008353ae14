"""Shapes are checked before anything runs: by mypy and by pyright, both strict.

Each file in must_fail marks the lines that a checker must refuse; every marked line has to be
refused, and no other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.tree import ROOT

pytestmark = pytest.mark.slow

HERE = Path(__file__).resolve().parent
MUST_PASS = sorted(HERE.glob("must_pass*.py"))
MUST_FAIL = sorted((HERE / "must_fail").glob("*.py"))

Lines = set[tuple[str, int]]
"""Places as (file name, line)."""


def marked(paths: list[Path]) -> Lines:
    """Return the lines that are marked as errors."""
    return {
        (path.name, number)
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith("  # error")
    }


def run(*command: str) -> str:
    """Run a checker from the root of the repository and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy(paths: list[Path]) -> Lines:
    """Return the lines that mypy refuses."""
    printed = run("mypy", "--strict", "--no-error-summary", *map(str, paths))
    found = re.findall(r"^(.+?):(\d+): error: ", printed, re.MULTILINE)
    return {(Path(name).name, int(line)) for name, line in found if ROOT / name in paths}


def pyright(paths: list[Path]) -> Lines:
    """Return the lines that pyright refuses; the files ask for its strict rules themselves."""
    names = [str(path) for path in paths]
    printed = run("pyright", "--outputjson", "--pythonpath", sys.executable, *names)
    return {
        (Path(found["file"]).name, found["range"]["start"]["line"] + 1)
        for found in json.loads(printed)["generalDiagnostics"]
    }


@pytest.mark.parametrize("refused_by", [mypy, pyright])
def test_checkers_refuse_the_marked_lines_and_no_other(refused_by) -> None:
    assert refused_by([*MUST_PASS, *MUST_FAIL]) == marked(MUST_FAIL)


def test_the_marks_are_many_and_in_files_that_may_fail() -> None:
    assert len(marked(MUST_FAIL)) > 10
    assert marked(MUST_PASS) == set()
    assert all(path.read_text().startswith("# pyright: strict\n") for path in MUST_PASS + MUST_FAIL)
