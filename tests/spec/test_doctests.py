"""Every example in the book is run, and every page has one that a reader can do in the head."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import spec
from tools.tree import ROOT

MODULES = sorted(m.name for m in pkgutil.walk_packages(spec.__path__, "spec."))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
    assert results.attempted > 0, "every chapter and every page shows an example"


@pytest.mark.parametrize("name", ["scalar", "worlds", "refusals", "ref", "optim/sgd", "ops/exp"])
def test_the_examples_hold_in_a_file_that_is_run_alone(name: str) -> None:
    command = [sys.executable, "-m", "doctest", f"spec/{name}.py"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "")


def test_a_chapter_says_its_place_in_its_first_line() -> None:
    for place, chapter in enumerate(spec.CHAPTERS, 1):
        text = importlib.import_module(f"spec.{chapter}").__doc__ or ""
        assert text.startswith(f"Chapter {place}. "), chapter


def test_every_chapter_is_a_module() -> None:
    chapters = [f"spec.{chapter}" for chapter in spec.CHAPTERS]
    modules = {name for name in MODULES if name.count(".") == 1}
    assert set(chapters) == modules
    assert len(chapters) == len(set(chapters))


def test_the_package_says_where_to_start() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "spec"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    program = run.stdout.partition("\n\n")[2].partition("\n\ngrad")[0].replace("    ", "")
    shown = program.split("# ")[1].splitlines()[0]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{shown}\n"
    assert ", ".join(spec.REVERSE_MODE) in run.stdout
    assert set(spec.REVERSE_MODE) < set(spec.CHAPTERS)


def test_names_come_from_the_package_itself() -> None:
    code = "from spec import *; import spec; print([n for n in spec.__all__ if n not in globals()])"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"
    with pytest.raises(AttributeError, match="module 'spec' has no attribute 'gradient'"):
        spec.gradient  # type: ignore[attr-defined]  # noqa: B018
