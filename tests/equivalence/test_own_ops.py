"""docs/own-ops.md, executed: its pages, its backends and its commands do what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.tree import ROOT

INTEGERS = "\n## Integers beside numbers\n"
FIRST, _, LAST = (ROOT / "docs" / "own-ops.md").read_text(encoding="utf-8").partition(INTEGERS)
LAST = LAST.partition("\n## ")[0]
OPS = ("swiglu", "add_rms_norm", "log_cosh")


def blocks(language: str, part: str = FIRST) -> list[str]:
    """Return the blocks of a language, in the order of a part of the document."""
    return re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)


def commands(part: str = FIRST) -> list[list[str]]:
    """Return the words of every command of a part of the document."""
    return [shlex.split(line) for block in blocks("sh", part) for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stranger's folder with the modules of the document."""
    where = tmp_path_factory.mktemp("stranger")
    pages, right, wrong = blocks("python")
    codes, kernels = blocks("python", LAST)
    files = {
        "mypages.py": pages,
        "mykernels.py": f"{right}\n\n{wrong}",
        "codepages.py": codes,
        "codekernels.py": kernels,
    }
    for name, text in files.items():
        assert text.startswith(f"# {name}\n")
        (where / name).write_text(text, encoding="utf-8")
    return where


def ran(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of the document in the folder, as its reader would."""
    assert words[:3] == ["python", "-m", "equivalence"]
    return subprocess.run(
        [sys.executable, *words[1:]],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_the_right_backend_is_conformant_and_the_ops_are_listed(folder: Path) -> None:
    is_conformant(folder, commands()[:3], "mypages", OPS)


@pytest.mark.slow
def test_the_wrong_backend_is_refused_and_replayed(folder: Path) -> None:
    is_refused(folder, commands()[3], "mypages", OPS)


@pytest.mark.slow
def test_integers_beside_numbers_are_judged(folder: Path) -> None:
    is_conformant(folder, commands(LAST)[:3], "codepages", ("quantized_linear",))


@pytest.mark.slow
def test_a_sign_that_is_lost_of_integers_is_found(folder: Path) -> None:
    is_refused(folder, commands(LAST)[3], "codepages", ("quantized_linear",))


def is_conformant(
    folder: Path, lines: Sequence[list[str]], module: str, ops: Sequence[str]
) -> None:
    """Hold that the ops of a module are listed, and a backend of them is right and exact."""
    listed, judged, exact = lines
    assert f"operations of {module}: {', '.join(ops)}" in ran(folder, listed).stdout
    done = ran(folder, [*judged, "--json", "right.json"])
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((folder / "right.json").read_text(encoding="utf-8"))["rows"]
    fp32 = [row for row in rows if row["dtype"] == "fp32"]
    assert {row["status"] for row in fp32} == {"conformant"} and len(fp32) == 2 * len(ops)
    told = ran(folder, exact)
    assert told.returncode == 0, told.stdout + told.stderr


def is_refused(folder: Path, line: list[str], module: str, ops: Sequence[str]) -> None:
    """Hold that a backend is wrong in every op of a module, and so in a process of its own."""
    done = ran(folder, line)
    assert done.returncode == 1, done.stdout + done.stderr
    replays = [
        shlex.split(line.partition("replay: ")[2])
        for line in done.stdout.splitlines()
        if "replay: " in line
    ]
    of_each = {json.loads(words[4])["op"]: words for words in replays}
    assert set(of_each) == set(ops)
    for op, words in of_each.items():
        assert json.loads(words[4])["page"] == f"{module}:{op}"
        again = ran(folder, words)
        assert again.returncode == 1, again.stdout + again.stderr
