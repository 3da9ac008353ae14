"""Every example in the book is run, and every page has one that a reader can do in the head."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import spec
from spec.ops import OPS

MODULES = sorted(m.name for m in pkgutil.walk_packages(spec.__path__, "spec."))


@pytest.mark.parametrize("name", [*MODULES, "equivalence.worlds.opaque"])
def test_the_examples_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
    is_page = name.removeprefix("spec.ops.") in OPS or name.startswith("spec.optim.")
    assert results.attempted > 0 or not is_page, "a page shows an example"


def test_every_chapter_is_a_module() -> None:
    chapters = [f"spec.{chapter}" for chapter in spec.CHAPTERS]
    assert set(chapters) == {name for name in MODULES if name.count(".") == 1}
    assert len(chapters) == len(set(chapters))
