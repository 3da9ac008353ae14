"""An optimizer is two pages and an entry in two tables: everything else is read off the pages.

In a copy of the tree an optimizer is added that does not exist, `drift`. Its row is judged, its
kernels are compiled, and sessions, lists, trainers, stateful tests, checkpoints and `fast.torch`
take it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.conftest import copied_tree, enter
from tools.tree import ROOT

pytestmark = pytest.mark.slow

PLANTED = ROOT / "tests/house/planted"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy with two more pages, entered in their tables, and what is generated of them."""
    copy = copied_tree(tmp_path_factory.mktemp("tree"))
    for package, record in (("spec", "optimizer"), ("fast", "RULE")):
        page = (PLANTED / f"drift_of_{package}.py").read_text(encoding="utf-8")
        (copy / package / "optim/drift.py").write_text(page, encoding="utf-8")
        line = f"from {package}.optim.drift import {record} as _drift"
        enter(copy / package / "optim/__init__.py", line, "_drift")
    ran(copy, "-m", "tools.generate_protocols")
    return copy


def ran(tree: Path, *command: str) -> str:
    """Run Python in the copy, whose packages come first; return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "backend", ["fast-aten", pytest.param("fast-triton-interpreted", marks=pytest.mark.full)]
)
def test_its_row_is_judged(tree: Path, backend: str) -> None:
    which = ("--backend", backend, "--profile", "quick", "--ops", "drift", "--jobs", "1")
    printed = ran(tree, "-m", "equivalence", "run", *which)
    rows = [line.split() for line in printed.splitlines() if line.startswith("drift ")]
    assert rows and all((row[1], row[-1]) == ("update", "conformant") for row in rows), printed


def test_its_kernels_compile(tree: Path) -> None:
    printed = ran(tree, "-m", "fast", "kernels", "--target", "sm_80", "--ops", "drift")
    assert "0 faults" in printed


def test_everything_that_steps_takes_it(tree: Path) -> None:
    assert "drift was driven" in ran(tree, str(tree / "tests/house/planted/drive_drift.py"))


def test_its_pages_are_compared(tree: Path) -> None:
    ran(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/house/test_twins.py")
