"""The line of a kernel, read off what the compiler writes behind an operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from equivalence.races.fault import place_of
from tools.tree import ROOT

INLINED = """"tt.load"(%1, %2, %3) : (tensor<4x256x!tt.ptr<f32>>) -> tensor<4x256xf32> """ + (
    'loc(callsite("{path}":60:19 at "first"("/elsewhere/softmax.py":35:67)))'
)
NAMED = '"tt.store"(%13, %11) : (tensor<4x!tt.ptr<f32>>) -> () loc("total"("{path}":60:27))'
PLAIN = '"tt.store"(%13, %11) : (tensor<4x!tt.ptr<f32>>) -> () loc("{path}":60:27)'


@pytest.mark.parametrize("operation", [INLINED, NAMED, PLAIN])
def test_the_innermost_line_is_read(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    path = ROOT / "fast" / "kernels" / "rows" / "rowwise.py"
    found = place_of(operation.replace("{path}", str(path)))
    assert (found.path, found.line) == ("fast/kernels/rows/rowwise.py", 60)
    assert found.text == path.read_text(encoding="utf-8").splitlines()[59].strip()
    assert str(found) == f"fast/kernels/rows/rowwise.py:60: `{found.text}`"


def test_what_is_not_said_is_not_guessed(tmp_path: Path) -> None:
    assert place_of('"tt.load"(%1) : (tensor<4xf32>) -> () loc(unknown)').line == 0
    assert str(place_of("tt.load")) == "no line is known"
    gone = place_of(f'"tt.load"(%1) loc("{tmp_path}/gone.py":3:1)')
    assert (gone.line, gone.text) == (3, "")
