"""A dtype joins by its records, one for the device and one for the judge, and by nothing else.

In a copy of the tree fp16 is taken out of both tables: then nobody speaks of it, and everything
else goes on. With the two records back its rows are asked for and judged.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.conftest import copied_tree

pytestmark = [pytest.mark.slow, pytest.mark.full]

RECORDS = {
    "fast/device/dtypes.py": ("(FP32, BF16, FP16, FP64)", "(FP32, BF16, FP64)"),
    "equivalence/dtypes.py": ('        Dtype(FP16, FP32, "float16", "fp32", _HALF),\n', ""),
}
"""By file: the tables with the record and without it."""


def judged(tree: Path, backend: str) -> dict[str, str]:
    """Judge the value and the VJP of mul at `quick`; return each dtype's worst status."""
    said = tree / "said.json"
    command = [sys.executable, "-m", "equivalence", "run", "--backend", backend, "--ops", "mul"]
    done = subprocess.run(
        [*command, "--profile", "quick", "--json", str(said)],
        cwd=tree,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(said.read_text(encoding="utf-8"))["rows"]
    return {dtype: max(r["status"] for r in rows if r["dtype"] == dtype)
            for dtype in {r["dtype"] for r in rows}}  # fmt: skip


def tried(tree: Path) -> tuple[int, str]:
    """Try the judge by wrong members in bf16 and a right one; return the exit code and the rest."""
    members = ["exp: handed over in fp32", "exp: product rounded to storage", "tanh: in double"]
    command = [sys.executable, "-m", "population", "--profile", "quick", "--jobs", "0"]
    done = subprocess.run([*command, "--only", *members], cwd=tree, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def precisions(tree: Path) -> str:
    """Say which precisions a session names when it is asked for one that is not there."""
    code = "import fast\ntry: fast.Session(precision='none')\nexcept fast.Rejected as e: print(e)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_dtype_joins_by_its_records(tmp_path: Path) -> None:
    tree = copied_tree(tmp_path)
    texts = {name: (tree / name).read_text(encoding="utf-8") for name in RECORDS}
    for name, (there, gone) in RECORDS.items():
        assert texts[name].count(there) == 1, f"{name} has no such table"
        (tree / name).write_text(texts[name].replace(there, gone), encoding="utf-8")
    assert "fp16" not in precisions(tree)
    for backend in ("fast-aten", "torch"):
        assert judged(tree, backend).keys() == {"fp32", "bf16", "fp64"}
    code, said = tried(tree)
    assert code == 0, said
    member = tree / "population" / "judged" / "member.py"
    text = member.read_text(encoding="utf-8")
    by_hand = "\n\nNARROW = [DTYPES[name] for name in ('bf16', 'fp16')]\n"
    member.write_text(text + by_hand, encoding="utf-8")
    assert "KeyError: 'fp16'" in tried(tree)[1], "a table that is kept by hand"
    member.write_text(text, encoding="utf-8")
    for name, text in texts.items():
        (tree / name).write_text(text, encoding="utf-8")
    assert "fp16" in precisions(tree)
    for backend in ("fast-aten", "torch"):
        assert judged(tree, backend)["fp16"] in ("conformant", "declared")
