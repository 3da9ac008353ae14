"""Runs catchers on a copy of `fast`, in a child of a process that has loaded every library."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tools.tree import ROOT

Found = dict[str, Any]


@cache
def warm() -> subprocess.Popen[str]:
    """Start the process that forks a child per copy; it ends with this one's input to it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON", "TWINGRAD"))}
    environment = {
        **kept,
        "PYTHONPATH": str(ROOT),
        "TRITON_INTERPRET": "1",
        "OMP_NUM_THREADS": "1",
    }
    # -P: the folder that python is started in must not come before a copy.
    command = [sys.executable, "-P", "-m", "tests.mutants.warm"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
    atexit.register(ended, process)
    return process


def ended(process: subprocess.Popen[str]) -> None:
    """End the process, by the end of what it reads, and close its pipes."""
    process.communicate()


def run_catchers(folder: Path, catchers: Sequence[str]) -> tuple[int, list[Found]]:
    """Run catchers on the `fast` in a folder; return the exit code, and what each found."""
    process = warm()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps({"folder": str(folder), "catchers": [*catchers]}) + "\n")
    process.stdin.flush()
    done = json.loads(process.stdout.readline())
    assert done["code"] >= 0, f"signal {-done['code']} ended the process\n{done['err']}"
    assert done["out"], done["err"]
    said = json.loads(done["out"].splitlines()[-1])
    assert Path(said["fast"]).parent == folder / "fast", "the copy was not the one imported"
    return done["code"], said["found"]
