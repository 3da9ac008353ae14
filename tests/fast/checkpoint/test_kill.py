"""A process that is killed while it saves loses nothing that was saved before.

A kill says nothing of a loss of power: that the bytes are on the disk before the rename is a matter
of the order of `fsync`, which another test sees to.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fast import checkpoint
from tests.fast.checkpoint.saver import checksum, session
from tools.tree import ROOT

pytestmark = pytest.mark.slow

KILLS = 200
SIZE = 20_000
"""Entries of each tensor: writing the file takes long enough to be killed in."""
LONGEST = 0.03
"""Seconds from the first word of a save to the kill: some saves."""


class Saver:
    """The warm process of `tests/fast/checkpoint/saver.py`, and what its children have said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.stdin, self.stdout = process.stdin, process.stdout
        self.begun: dict[int, int] = {}
        self.ended = -1

    def kill_one(self, instant: float) -> None:
        """Let a child save for so many seconds, kill it, and take note of its last words."""
        print(file=self.stdin, flush=True)
        word, pid = self.stdout.readline().split()
        assert word == "child"
        line = self.stdout.readline()
        time.sleep(instant)
        os.kill(int(pid), signal.SIGKILL)
        while line != "gone\n":
            word, number, *rest = line.split()
            if word == "begin":
                self.begun[int(number)] = int(rest[0])
            else:
                self.ended = int(number)
            line = self.stdout.readline()


@contextmanager
def saver(path: Path) -> Iterator[Saver]:
    """Start the warm process, and end it."""
    command = [sys.executable, "-m", "tests.fast.checkpoint.saver", str(path), str(SIZE)]
    # Only a process with one thread is forked safely.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **threads},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Saver(process)
        finally:
            process.kill()


@pytest.mark.filterwarnings("ignore::fast.OtherThreads")
def test_whoever_is_killed_while_saving_has_saved_what_it_said(tmp_path: Path) -> None:
    path, held, draw = tmp_path / "c", session(SIZE), random.Random(0)
    current, unfinished, renewed = -1, 0, 0
    with saver(path) as killed:
        for kill in range(KILLS):
            killed.kill_one(draw.uniform(0, LONGEST))
            if not path.exists():
                assert killed.ended == -1, "what was saved is gone"
                continue
            number = checkpoint.load(path, held)["number"]
            assert isinstance(number, int)
            assert checksum(held) == killed.begun[number], f"kill {kill}: a mixture was loaded"
            # The last one that was announced, one that was renamed and not yet announced, or the
            # one that an earlier kill had left.
            newest = max(killed.begun)
            assert number in {max(killed.ended, current), newest}, f"kill {kill}: an older one"
            renewed += number != current
            current = number
            for left in tmp_path.glob(".c.*.part"):
                unfinished += 1
                left.unlink()
            assert [p.name for p in tmp_path.iterdir()] == ["c"]
    assert unfinished and renewed, "no kill fell into a save"
