"""The examples in the docstrings of the suite are run, as those of the book are."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tools.tree import ROOT

SHOWING = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "equivalence").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", SHOWING)
def test_the_examples_hold(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted and not found.failed
