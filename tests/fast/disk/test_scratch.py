"""Temporary folders: what a killed process has left goes with the next one, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fast.disk import scratch
from tools.tree import ROOT


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let temporary files be made in a folder of the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path


def test_a_folder_is_private_and_goes_with_what_is_in_it(temporary: Path) -> None:
    with scratch.folder() as one, scratch.folder() as other:
        assert {one, other} == {*temporary.iterdir()}
        assert one.stat().st_mode & 0o777 == 0o700
        (one / "file").touch()
        scratch.remove_leftovers()
        assert (one / "file").exists() and other.exists()
    assert not [*temporary.iterdir()]


LEAVING = """
import os, sys, tempfile
from fast.disk import scratch
tempfile.tempdir = sys.argv[1]
with scratch.folder() as made:
    (made / "file").touch()
    os._exit(7)
"""


def test_what_a_killed_process_has_left_is_removed(temporary: Path) -> None:
    command = [sys.executable, "-c", LEAVING, str(temporary)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, cwd=ROOT, env=environment).returncode == 7
    left, elsewhere = [*temporary.glob(f"{scratch.PREFIX}*")], temporary / "of somebody else"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    (temporary / f"{scratch.PREFIX}link").symlink_to(elsewhere)
    (temporary / f"{scratch.PREFIX}file").touch()
    assert len(left) == 1 and (left[0] / "file").exists()
    with scratch.folder():
        assert not left[0].exists()
    assert (elsewhere / "file").exists(), "no link is followed"
    assert {p.name for p in temporary.glob(f"{scratch.PREFIX}*")} == {
        f"{scratch.PREFIX}link",
        f"{scratch.PREFIX}file",
    }


def test_a_folder_that_somebody_has_removed_is_made_anew(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdtemp, lock, seen = tempfile.mkdtemp, scratch.lock, []

    def stolen_early(**given: str) -> str:
        seen.append(mkdtemp(**given))
        if len(seen) == 1:
            os.rmdir(seen[0])
        return seen[-1]

    def stolen_late(descriptor: int, wait: bool = True) -> bool:
        if len(seen) == 2:
            os.rmdir(seen[1])
        return lock(descriptor, wait)

    monkeypatch.setattr(tempfile, "mkdtemp", stolen_early)
    monkeypatch.setattr(scratch, "lock", stolen_late)
    with scratch.folder() as made:
        assert len(seen) == 3 and str(made) == seen[2] and made.is_dir()
