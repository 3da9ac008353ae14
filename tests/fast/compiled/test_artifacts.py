"""Artifacts on disk: shared by processes, whole or made anew, and found by nobody else's key."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fast import Rejected
from fast.__main__ import main
from fast.compiled import artifacts
from fast.disk.locks import alone
from tools.tree import ROOT

pytestmark = pytest.mark.slow

MAKING = """
import sys
from fast.compiled import artifacts
def make():
    print("makes", flush=True)
    sys.stdin.readline()
    return sys.argv[1].encode()
print("starts", flush=True)
print(artifacts.fetch("key", make).decode(), flush=True)
"""


@contextmanager
def making(place: Path, word: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that wants an artifact, and makes it when it is sent a line."""
    with subprocess.Popen(
        [sys.executable, "-c", MAKING, word],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), artifacts.VARIABLE: str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    """Wait for what a process says next."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_making_room_takes_no_lock_from_who_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path))
    place = artifacts.folder()
    file = place / "key.artifact"
    file.write_bytes(b"damaged")
    with making(tmp_path, "one") as one:
        assert [line(one), line(one)] == ["starts", "makes"]
        assert artifacts.make_room(place, -1) == 0
        with alone(place / "key.lock", wait=False) as held:
            assert not held, "two processes hold what they take for the same lock"
        with making(tmp_path, "other") as other:
            assert line(other) == "starts"
            print(file=one.stdin, flush=True)
            assert [line(one), line(other)] == ["one", "one"]
    assert artifacts.make_room(place, -1) == 1 and not [*place.iterdir()]


def test_a_folder_that_is_not_private_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path))
    place = artifacts.folder()
    assert place == tmp_path / "artifacts" and place.stat().st_mode & 0o777 == 0o700
    place.chmod(0o720)
    with pytest.raises(Rejected, match=r"only you write; its mode is 720, not 700$"):
        artifacts.folder()
    place.rmdir()
    place.symlink_to(tmp_path)
    with pytest.raises(Rejected, match=r"it is a link or a file$"):
        artifacts.folder()


def test_no_bit_of_a_file_may_differ(tmp_path: Path, capsys: Any) -> None:
    file, whole = tmp_path / "x.artifact", artifacts.sealed(b"a package")
    for place in range(len(whole)):
        for bit in range(8):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            assert artifacts.read(file) is None
    for short in range(len(whole)):
        file.write_bytes(whole[:short])
        assert artifacts.read(file) is None
    assert "x.artifact is damaged, and is made anew" in capsys.readouterr().err
    file.write_bytes(whole)
    assert artifacts.read(file) == b"a package"


def test_what_was_not_used_for_longest_goes_first(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path))
    monkeypatch.setattr(artifacts, "MOST_BYTES", 2 * len(artifacts.sealed(b"12345678")))
    made = [artifacts.fetch(key, lambda: b"12345678") for key in ("a", "b")]
    place = artifacts.folder()
    os.utime(place / "a.artifact", ns=(1, 1))
    os.utime(place / "b.artifact", ns=(2, 2))
    assert artifacts.fetch("a", lambda: b"anew") == made[0], "it is found, and used now"
    artifacts.fetch("c", lambda: b"12345678")
    assert {file.name for file, _ in artifacts.kept(place)} == {"a.artifact", "c.artifact"}
    (place / ".c.artifact.0123456789abcdef.part").write_bytes(b"left over")
    (place / "never made.lock").touch()
    assert main(["cache"]) == 0 and "2 artifacts" in capsys.readouterr().out
    assert main(["cache", "--empty"]) == 0 and "2 removed" in capsys.readouterr().out
    assert not [*place.iterdir()]


def test_processes_that_want_one_artifact_at_once_make_it_once(tmp_path: Path) -> None:
    text = """
import sys, time
from fast.compiled import artifacts
def make():
    print("made", flush=True)
    time.sleep(0.5)
    return b"whole"
assert artifacts.fetch("key", make) == b"whole"
"""
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), artifacts.VARIABLE: str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", text], env=environment, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    said = b"".join(process.communicate()[0] for process in running)
    assert [process.returncode for process in running] == [0, 0, 0]
    assert said == b"made\n"
