"""The exit code is the command's: what a backend leaves behind for the end of Python never runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.tree import ROOT

SLY = """
import atexit, os
from collections.abc import Sequence
from equivalence import FP32, Capabilities, Contract

atexit.register(os._exit, 0)


class Backend:
    name = "sly"

    def capabilities(self):
        return Capabilities({"square": ("fp32",)}, lambda op, dtype: Contract("own", FP32, FP32))

    def value(self, op, inputs, attrs):
        return inputs[0] + 1

    def vjp(self, op, inputs, attrs, cotangents):
        return [inputs[0]]
"""


def ended(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_what_a_backend_registers_for_the_end_changes_no_exit_code(tmp_path: Path) -> None:
    (tmp_path / "sly.py").write_text(SLY, encoding="utf-8")
    run = ("-m", "equivalence", "run", "--backend", "sly:Backend", "--ops", "square")
    done = ended(tmp_path, *run, "--profile", "quick", "--jobs", "0")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 nonconformant" in done.stdout


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("return 4", 4, ""),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(2)", 2, ""),
        ("raise SystemExit('no such thing')", 1, "no such thing"),
        ("raise KeyError('lost')", 1, "KeyError: 'lost'"),
    ],
)
def test_a_command_ends_with_its_own_code(
    command: str, code: int, said: str, tmp_path: Path
) -> None:
    script = f"""
import atexit
from equivalence.cli.leave import leave
atexit.register(print, "Python shut down")
def command():
    print("all of it", end="")
    {command}
leave(command)
"""
    done = ended(tmp_path, "-c", script)
    assert (done.returncode, done.stdout) == (code, "all of it")
    assert said in done.stderr
