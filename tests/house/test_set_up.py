"""Two processes that ask for one environment get one good environment (tools/set_up.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import set_up
from tools.tree import ROOT

ASK = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tools import set_up

def pip(python, *wanted):
    time.sleep(0.5)
    with open("made", "a") as made:
        made.write("once\\n")
    Path(".venv", "packages").touch()
    return 0

set_up.pip = pip
set_up.venv.create = lambda folder, with_pip: folder.mkdir()
sys.exit(set_up.main([".venv"]))
"""


@pytest.fixture
def sources(plant: Callable[[str, str], None], tmp_path: Path) -> Path:
    """A folder with the files that an environment is made from, some time ago."""
    for name in set_up.SOURCES:
        plant(name, "")
        os.utime(tmp_path / name, (1, 1))
    return tmp_path


def test_two_at_once_make_one_environment(sources: Path) -> None:
    command = [sys.executable, "-c", ASK, str(ROOT)]
    both = [
        subprocess.Popen(command, cwd=sources, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = sorted(process.communicate()[0].split()[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert said == ["Setting", "Waiting"]
    assert (sources / "made").read_text() == "once\n"
    assert {path.name for path in (sources / ".venv").iterdir()} == {"packages", ".ready"}


def test_an_interrupted_set_up_is_made_again(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sources)
    monkeypatch.setattr(set_up.venv, "create", lambda folder, with_pip: folder.mkdir())
    monkeypatch.setattr(set_up, "pip", lambda python, *wanted: 1)
    assert set_up.main([".venv"]) == 1
    assert not set_up.is_current(Path(".venv"))
    (sources / ".venv" / "left over").touch()
    monkeypatch.setattr(set_up, "pip", lambda python, *wanted: 0)
    assert set_up.main([".venv"]) == 0
    assert [path.name for path in (sources / ".venv").iterdir()] == [".ready"]


def test_newer_pins_make_an_environment_stale(sources: Path) -> None:
    stamp = sources / ".venv" / ".ready"
    stamp.parent.mkdir()
    stamp.touch()
    here = os.getcwd()
    try:
        os.chdir(sources)
        assert set_up.is_current(Path(".venv"))
        os.utime("constraints.txt", (stamp.stat().st_mtime + 1,) * 2)
        assert not set_up.is_current(Path(".venv"))
    finally:
        os.chdir(here)


def test_an_old_python_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert set_up.main([".venv"]) == 1
    assert "3.11 or newer" in capsys.readouterr().err
