"""The tests that hold an entry of docs/entries.md are found by their own marks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools import generate_entries
from tools.generate_entries import generate, holders

MARKED = """
import pytest

@pytest.mark.holds("Release a buffer", "Naturals")
@pytest.mark.parametrize("x", [1])
def test_one(x): ...

class TestMore:
    @pytest.mark.holds("Naturals")
    def test_two(self): ...
"""


def test_marks_are_collected(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    plant("tests/fast/test_a.py", MARKED)
    one, two = (f"tests/fast/test_a.py::{name}" for name in ("test_one", "test_two"))
    assert holders(tmp_path) == {"Release a buffer": [one], "Naturals": [one, two]}


def test_entries_and_marks_must_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    known = holders(generate_entries.ROOT)
    wrong = {**known, "Release the buffer": ["tests/a.py::test_one"]}
    monkeypatch.setattr(generate_entries, "holders", lambda root: wrong)
    with pytest.raises(LookupError, match=r"tests/a\.py::test_one holds .* Release a buffer\?$"):
        generate()
    del wrong["Release the buffer"], wrong["Release a buffer"]
    with pytest.raises(LookupError, match="no test holds 'Release a buffer'"):
        generate()
