"""A step of `make full` is run again when something that it read has changed, and only then."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.planting import git
from tools import shown
from tools.shown import RECORD, digests, folded, is_shown, recorded, unfolded
from tools.tree import ROOT, python_files

Plant = Callable[[str, str], None]

MAKEFILE = """
reads:
	@cat data/one.txt data/two.txt other/one.txt > build/copied
	@echo ran >> build/runs; echo the end
imports:
	@PYTHONPATH=. {python} -c 'import package.module'
fails:
	@cat data/one.txt; false
writes:
	@cat data/one.txt; echo more >> data/one.txt
lint:
	@cat data/one.txt
"""


@pytest.fixture
def tree(tmp_path: Path, plant: Plant) -> Path:
    """A tree with a Makefile, two folders of data and a package."""
    plant("Makefile", MAKEFILE.format(python=sys.executable))
    for name in (
        "data/one.txt",
        "data/two.txt",
        "other/one.txt",
        "other/two.txt",
        "pyproject.toml",
    ):
        plant(name, name)
    for folder in ("tools", "build"):
        (tmp_path / folder).mkdir()
    plant("package/__init__.py", "from package import inner\n")
    plant("package/inner.py", "")
    plant("package/module.py", "")
    plant("package/rest.py", "")
    return tmp_path


def test_a_tree_is_its_commit_with_whatever_full_runs_have_written(
    tree: Path, plant: Plant
) -> None:
    plant(RECORD, "{}")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "All")):
        git(tree, *command)
    clean = shown.commit(tree)
    assert re.fullmatch("[0-9a-f]{7,}", clean)
    plant(RECORD, "{} ")
    plant("build/log", "beside the tree")
    assert shown.commit(tree) == clean
    plant("data/one.txt", "changed")
    assert shown.commit(tree) == f"{clean}+"


def runs(tree: Path) -> int:
    return len((tree / "build/runs").read_text(encoding="utf-8").splitlines())


def test_what_has_passed_is_not_run_again(tree: Path, plant: Plant) -> None:
    assert shown.shown(tree, "reads") and shown.shown(tree, "reads")
    assert runs(tree) == 1
    entry = recorded(tree)["reads"]
    assert entry["read"] == ["data/*", "other/one.txt"]
    assert entry["last"] == "the end"
    plant("other/two.txt", "changed, and was not read")
    assert is_shown(tree, "reads")


@pytest.mark.parametrize(
    "name", ["data/one.txt", "other/one.txt", "data/new.txt", "pyproject.toml"]
)
def test_what_was_read_and_has_changed_is_read_again(tree: Path, plant: Plant, name: str) -> None:
    shown.shown(tree, "reads")
    plant(name, "changed")
    assert not is_shown(tree, "reads")
    assert shown.shown(tree, "reads") and runs(tree) == 2


def test_a_file_that_is_gone_and_another_recipe_are_changes(tree: Path, plant: Plant) -> None:
    shown.shown(tree, "reads")
    (tree / "other/one.txt").rename(tree / "kept")
    assert not is_shown(tree, "reads")
    (tree / "kept").rename(tree / "other/one.txt")
    assert is_shown(tree, "reads")
    plant("Makefile", MAKEFILE.format(python=sys.executable).replace("the end", "another end"))
    assert not is_shown(tree, "reads")


def test_modules_count_whether_or_not_there_is_bytecode(tree: Path) -> None:
    writes = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": ""}
    subprocess.run(["make", "imports"], cwd=tree, env=writes, check=True)
    assert (tree / "package/__pycache__").exists()
    shown.shown(tree, "imports")
    read = recorded(tree)["imports"]["read"]
    assert {"package/__init__.py", "package/inner.py", "package/module.py"} <= {*read}
    assert "package/rest.py" not in read


@pytest.mark.parametrize(("step", "passes"), [("fails", False), ("writes", True), ("lint", True)])
def test_what_shows_nothing_is_not_written_down(tree: Path, step: str, passes: bool) -> None:
    assert shown.shown(tree, step) is passes
    assert step not in recorded(tree)


def test_a_failing_step_stops_no_other_one(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shown, "ROOT", tree)
    assert shown.main(["fails", "reads"]) == 1
    said = capsys.readouterr().out
    assert "fails: FAILED" in said and re.search(r"reads: passed at \S* ?in \d+ s: the end", said)
    assert shown.main(["reads"]) == 0


@pytest.mark.parametrize("name", ["--help", "-B", "reeds", "data", "data/one.txt", ""])
def test_what_is_no_step_is_neither_run_nor_written_down(
    tree: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # A `make` that another one has started says so in what it says.
    monkeypatch.setenv("MAKELEVEL", "1")
    monkeypatch.setattr(shown, "ROOT", tree)
    with pytest.raises(SystemExit) as ended:
        shown.main(["reads", name])
    assert ended.value.code == (0 if name == "--help" else 2)
    assert not recorded(tree) and not (tree / "build/runs").exists()


def test_a_lost_count_is_the_whole_tree(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from inotify_simple import Event, INotify, flags

    real = INotify.read
    lost = Event(-1, flags.Q_OVERFLOW, 0, "")
    monkeypatch.setattr(INotify, "read", lambda self: [lost, *real(self)])
    shown.shown(tree, "reads")
    assert unfolded(recorded(tree)["reads"]["read"], digests(tree)) == sorted(digests(tree))


def test_a_folder_is_short_for_its_files_and_no_folder_below() -> None:
    names = ["a.py", "f/a.py", "f/b.py", "f/g/a.py", "f/g/b.py"]
    assert folded(["f/a.py", "f/b.py", "a.py"], names) == ["a.py", "f/*"]
    assert unfolded(["f/*"], names) == ["f/a.py", "f/b.py"]
    assert folded(["f/g/b.py"], names) == ["f/g/b.py"]


def test_another_format_is_refused(tree: Path, plant: Plant) -> None:
    plant(RECORD, json.dumps({"schema": 2, "steps": {}}))
    with pytest.raises(ValueError, match="schema 2"):
        recorded(tree)


LEAVES = re.compile(r"\bmark\.full\b|\b(?:in_turns|of_pages)\(")
"""What a file says that leaves tests to `make full`: by a mark, or by turns (tests/turns.py)."""


def test_every_test_that_make_test_leaves_out_has_a_step() -> None:
    """A folder whose tests no step runs would never be run at all."""
    said = subprocess.run(
        ["make", "--dry-run", "test-full"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    places = set(re.findall(r"\b(?:tests/\S+|proofs_notes)$", said.stdout, re.MULTILINE))
    marked = [
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "proofs_notes")
        for path in python_files(ROOT, folder)
        if LEAVES.search(path.read_text(encoding="utf-8")) and path.name.startswith("test_")
    ]
    left = [name for name in marked if not name.startswith(tuple(places))]
    assert places and not left, f"name their folder in LATER in the Makefile: {left}"
