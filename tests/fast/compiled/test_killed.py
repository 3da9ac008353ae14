"""A process that is killed while it makes an artifact leaves none that is not whole, and no litter.

Each kill is at a call into the system, before it or after it, and all of them are tried.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.tree import ROOT

pytestmark = pytest.mark.slow


def kills(what: str, place: Path) -> list[dict[str, Any]]:
    """Run the experiments of `killed.py`, and check of each that nobody is worse off for it."""
    # Only a process with one thread is forked safely; what torch itself keeps is another matter.
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-m", "tests.fast.compiled.killed", what, str(place)],
        cwd=ROOT,
        env={**os.environ, **single, "TORCHINDUCTOR_CACHE_DIR": str(place / "inductor")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "damaged" not in found.stderr, "nothing stood under the name that was not whole"
    reports = [json.loads(line) for line in found.stdout.splitlines()]
    for report in reports:
        whole = "key.artifact" in report["left"]
        assert report["right"] and report["made"] == (not whole), report
        assert not whole or "part" not in report["left"], report
        if not whole:
            # Whoever makes it anew clears away what was left.
            kept = [name for name in report["after"] if not name.startswith("torchinductor")]
            assert kept == ["key.artifact", "key.lock"], report
        assert not report["at last"], report
    return reports


def litter(reports: list[dict[str, Any]], name: str) -> int:
    return sum(name in report["left"] for report in reports)


def test_a_kill_while_publishing(tmp_path: Path) -> None:
    *reports, last = kills("publish", tmp_path)
    assert len(reports) >= 50 and {report["by"] for report in reports} == {signal.SIGKILL}
    assert last["by"] == 0 and last["left"] == ["key.artifact", "key.lock"]
    assert litter(reports, "part") > 5 and litter(reports, "key.artifact") > 5


def test_a_kill_amid_the_writing(tmp_path: Path) -> None:
    reports = kills("write", tmp_path)
    assert len(reports) >= 10 and {report["by"] for report in reports} == {signal.SIGXFSZ}
    assert litter(reports, "part") == len(reports)


def test_a_kill_while_a_stub_compiles(tmp_path: Path) -> None:
    *reports, last = kills("compile", tmp_path)
    assert len(reports) >= 10 and {report["by"] for report in reports} == {signal.SIGKILL}
    assert last["by"] == 0
    assert litter(reports, "twingrad") > 5


@pytest.mark.full
def test_a_kill_while_the_compiler_runs(tmp_path: Path) -> None:
    reports = kills("real", tmp_path)
    assert [report["by"] for report in reports] == [signal.SIGKILL] * 3
    assert litter(reports, "twingrad") == 3
