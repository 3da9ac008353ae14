"""docs/own-ops.md, executed: its pages, its backends and its commands do what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tools.tree import ROOT

DOCUMENT, _, SEVERAL = (
    (ROOT / "docs" / "own-ops.md").read_text(encoding="utf-8").partition("\n## Several results\n")
)
OPS = ("swiglu", "add_rms_norm", "log_cosh")


def blocks(language: str, text: str = DOCUMENT) -> list[str]:
    """Return the blocks of a language, in the order of the document."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(text: str = DOCUMENT) -> list[list[str]]:
    """Return the words of every command of the document."""
    return [shlex.split(line) for block in blocks("sh", text) for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stranger's folder with the two modules of the document."""
    where = tmp_path_factory.mktemp("stranger")
    pages, right, wrong = blocks("python")
    for name, text in (("mypages.py", pages), ("mykernels.py", f"{right}\n\n{wrong}")):
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
    listed, judged, exact = commands()[:3]
    assert f"operations of mypages: {', '.join(OPS)}" in ran(folder, listed).stdout
    done = ran(folder, [*judged, "--json", "right.json"])
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((folder / "right.json").read_text(encoding="utf-8"))["rows"]
    fp32 = [row for row in rows if row["dtype"] == "fp32"]
    assert {row["status"] for row in fp32} == {"conformant"} and len(fp32) == 2 * len(OPS)
    told = ran(folder, exact)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.slow
def test_the_wrong_backend_is_refused_and_replayed(folder: Path) -> None:
    done = ran(folder, commands()[3])
    assert done.returncode == 1, done.stdout + done.stderr
    replays = [
        shlex.split(line.partition("replay: ")[2])
        for line in done.stdout.splitlines()
        if "replay: " in line
    ]
    of_each = {json.loads(words[4])["op"]: words for words in replays}
    assert set(of_each) == set(OPS)
    for op, words in of_each.items():
        assert json.loads(words[4])["page"] == f"mypages:{op}"
        again = ran(folder, words)
        assert again.returncode == 1, again.stdout + again.stderr


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stranger's folder with the modules of an op of two results."""
    where = tmp_path_factory.mktemp("rows")
    pages, right, wrong = blocks("python", SEVERAL)
    for name, text in (("rowpages.py", pages), ("rowkernels.py", f"{right}\n\n{wrong}")):
        assert text.startswith(f"# {name}\n")
        (where / name).write_text(text, encoding="utf-8")
    return where


@pytest.mark.slow
def test_the_right_backend_of_two_results_is_conformant_everywhere(rows: Path) -> None:
    for words in commands(SEVERAL)[:3]:
        done = ran(rows, words)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_wrong_backend_of_two_results_is_refused_and_replayed(rows: Path) -> None:
    done = ran(rows, commands(SEVERAL)[3])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "result 1 (scale)[" in done.stdout and "gradient of x[" in done.stdout
    lines = (line.partition("replay: ")[2] for line in done.stdout.splitlines())
    replays = [shlex.split(line) for line in lines if line]
    of_each = {json.loads(words[4])["direction"]: words for words in replays}
    assert set(of_each) == {"value", "vjp"}
    for words in of_each.values():
        assert json.loads(words[4])["page"] == "rowpages:scaled_rows"
        again = ran(rows, words)
        assert again.returncode == 1, again.stdout + again.stderr
