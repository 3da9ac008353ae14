"""docs/own-ops.md, executed: its pages, its backends and its commands do what it says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support import judge
from tools.tree import ROOT

DOCUMENT, _, SEVERAL = (
    (ROOT / "docs" / "own-ops.md").read_text(encoding="utf-8").partition("\n## Several results\n")
)
OPS = ("swiglu", "add_rms_norm", "log_cosh")
FILES = ("mypages.py", "mykernels.py", "", "mylion.py", "mysteps.py", "")
"""The file of each block of the document; a block without one goes on with the file before it."""


def blocks(language: str, text: str = DOCUMENT) -> list[str]:
    """Return the blocks of a language, in the order of the document."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(text: str = DOCUMENT) -> list[list[str]]:
    """Return the words of every command of the document."""
    return [shlex.split(line) for block in blocks("sh", text) for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stranger's folder with the modules of the document."""
    where = tmp_path_factory.mktemp("stranger")
    texts: dict[str, str] = {}
    for name, text in zip(FILES, blocks("python"), strict=True):
        if name:
            assert text.startswith(f"# {name}\n")
            texts[name] = text
        else:
            texts[list(texts)[-1]] += f"\n\n{text}"
    for name, text in texts.items():
        (where / name).write_text(text, encoding="utf-8")
    return where


def ran(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of the document in the folder."""
    assert words[:3] == ["python", "-m", "equivalence"]
    return judge(folder, *words[3:])


def right(folder: Path, words: list[str]) -> list[dict[str, str]]:
    """Run a command that judges a right backend, and return its rows in fp32."""
    done = ran(folder, [*words, "--json", "right.json"])
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((folder / "right.json").read_text(encoding="utf-8"))["rows"]
    return [row for row in rows if row["dtype"] == "fp32"]


def replayed(folder: Path, words: list[str], key: str) -> dict[str, str]:
    """Run a command that judges a wrong backend, and replay a case of each page in a new process.

    Return the address of each page, which its cases have under this key.
    """
    done = ran(folder, words)
    assert done.returncode == 1, done.stdout + done.stderr
    replays = [
        shlex.split(line.partition("replay: ")[2])
        for line in done.stdout.splitlines()
        if "replay: " in line
    ]
    cases = {json.loads(line[4])[key]: line for line in replays}
    for line in cases.values():
        again = ran(folder, line)
        assert again.returncode == 1, again.stdout + again.stderr
    return {name: json.loads(line[4])["page"] for name, line in cases.items()}


@pytest.mark.slow
def test_the_right_backend_is_conformant_and_the_ops_are_listed(folder: Path) -> None:
    listed, judged, exact = commands()[:3]
    assert f"operations of mypages: {', '.join(OPS)}" in ran(folder, listed).stdout
    rows = right(folder, judged)
    assert {row["status"] for row in rows} == {"conformant"} and len(rows) == 2 * len(OPS)
    told = ran(folder, exact)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.slow
def test_the_wrong_backend_is_refused_and_replayed(folder: Path) -> None:
    assert replayed(folder, commands()[3], "op") == {op: f"mypages:{op}" for op in OPS}


@pytest.mark.slow
def test_the_right_steps_are_conformant_and_the_optimizer_is_listed(folder: Path) -> None:
    listed, judged, exact = commands()[4:7]
    assert "optimizers of mylion: lion\n" in ran(folder, listed).stdout
    (row,) = right(folder, judged)
    assert row["status"] == "conformant"
    told = ran(folder, exact)
    assert told.returncode == 0 and "lion update" in told.stdout, told.stdout + told.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [7, 8])
def test_wrong_steps_are_refused_and_replayed(folder: Path, number: int) -> None:
    assert replayed(folder, commands()[number], "optimizer") == {"lion": "mylion:lion"}


@pytest.mark.slow
def test_wrong_steps_differ_on_exact_numbers(folder: Path) -> None:
    told = ran(folder, commands()[9])
    assert told.returncode == 1 and "lion update differs" in told.stdout, told.stdout + told.stderr


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
