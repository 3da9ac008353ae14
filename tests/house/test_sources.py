"""What pages name elsewhere is read off their records: no test keeps a table of it by hand."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from spec.ops import OPS
from tools.tree import ROOT

READERS = (
    "tests/spec/sources.py",
    "tests/spec/test_elsewhere.py",
    "tests/spec/test_values.py",
    "tests/equivalence/backends/opinfo.py",
    "tests/equivalence/backends/opinfo_calls.py",
    "tests/equivalence/backends/test_opinfo.py",
)
"""The modules that read pages' independent sources, where an op's name stands for no rule."""


def tables(root: Path) -> Iterator[str]:
    """Say where a reader has a module's constant that lists ops by name."""
    for where in READERS:
        path = root / where
        if not path.exists():
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
                continue
            said = {n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant)}
            if named := sorted(said & {*OPS}):
                yield f"{where}:{node.lineno} lists {', '.join(named)}: say it on their pages"


def test_no_reader_keeps_a_table_of_ops() -> None:
    found = list(tables(ROOT))
    assert not found, "\n".join(found)


def test_a_planted_table_is_noticed(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    plant(READERS[2], 'FORMULAS = {"softmax": None, "sum": None}\n')
    plant(READERS[3], 'NAMED: dict[str, str] = {"max": "amax"}\nOTHER = ("dim", "keepdim")\n')
    found = list(tables(tmp_path))
    assert len(found) == 2
    assert found[0].startswith("tests/spec/test_values.py:1 lists softmax, sum")
