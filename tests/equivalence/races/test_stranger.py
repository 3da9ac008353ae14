"""Races in kernels of one's own: in a block that watches launches, and in a backend's calls."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from equivalence.cli import main
from equivalence.races.launches import NoLaunch, watching
from equivalence.runs.results import CONFORMANT, NONCONFORMANT, USAGE
from tools.tree import ROOT

FOLDER = ROOT / "build" / "races"
"""Where `make races` puts ttsem."""

needs_ttsem = pytest.mark.skipif(
    importlib.util.find_spec("ttsem") is None and not (FOLDER / "ttsem").is_dir(),
    reason="ttsem is not here; `make races` sets it up",
)

KERNELS = "tests.equivalence.races.kernels"

PROGRAM = f"""
import torch
from equivalence import Faulty, watching
from {KERNELS} import _guessed, _square, _tuned, square

def tried(**options):
    try:
        with watching() as watch:
            z = square(torch.arange(100.0), **options)
        assert torch.equal(z, torch.arange(100.0) ** 2)
        print("clean", watch.launches, watch.instances)
    except Faulty as error:
        print(error.fault.kind, error.fault.place.text)

tried()
tried(step=48)
tried(kernel=_guessed)
tried(kernel=_tuned)
try:
    with watching():
        torch.ones(3) * 2
except ValueError as error:
    print(error)
"""


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(FOLDER), os.environ.get("PYTHONPATH", "")])
    own = {n: v for n, v in os.environ.items() if n != "TRITON_INTERPRET"}
    return {**own, "PYTHONPATH": path, **more}


@needs_ttsem
@pytest.mark.slow
def test_launches_of_any_kind_are_watched() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment(TWINGRAD_COMPILE_TARGET="sm_90"),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    right, racy, guessed, tuned, none = done.stdout.splitlines()
    store = "tl.store(z + at, here * here, mask=at < n)"
    assert (right, racy, guessed) == ("clean 1 2", f"race {store}", "clean 1 2"), done.stderr
    # One of the configurations that a device would choose from races.
    assert tuned == f"race {store}"
    assert none.startswith("no launch of a Triton kernel was seen")


def test_where_nothing_can_be_watched_the_block_does_not_begin() -> None:
    """Tests interpret kernels, and the interpreter runs program instances one by one."""
    with pytest.raises(NoLaunch, match="set TWINGRAD_COMPILE_TARGET=sm_90"), watching():
        pytest.fail("the block ran")


@needs_ttsem
@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "code", "said"),
    [
        ("Right", CONFORMANT, "0 faults; 1 of 1 planted faults found"),
        ("Racy", NONCONFORMANT, "race in _square, tests/equivalence/races/kernels.py:"),
        ("Plain", USAGE, "no launch of a Triton kernel was seen in any call of square"),
        ("Columns", CONFORMANT, "0 faults; 1 of 1 planted faults found"),
        ("RacyColumns", NONCONFORMANT, "race in _square, tests/equivalence/races/kernels.py:"),
        ("Refusing", NONCONFORMANT, "declared, then refused: NotImplementedError: short ones"),
        ("Foreseen", NONCONFORMANT, "the predicate of square raised AttributeError"),
        ("Steps", CONFORMANT, "0 faults; 1 of 1 planted faults found"),
        ("RacySteps", NONCONFORMANT, "race in _step, tests/equivalence/races/kernels.py:"),
    ],
)
def test_a_backend_is_watched(backend: str, code: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / "races.json"
    asked = ["races", "--backend", f"{KERNELS}:{backend}", "--jobs", "1", "--json", str(path)]
    done = subprocess.run(
        [sys.executable, "-m", "equivalence", *asked],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code and said in done.stdout + done.stderr, done.stderr
    if code != USAGE:
        plain = json.loads(path.read_text(encoding="utf-8"))
        (row,) = plain["rows"]
        known = ("sgd", ["_step"]) if "Steps" in backend else ("square", ["_square"])
        assert (plain["schema"], row["name"]) == (1, known[0])
        assert row["kernels"] == (known[1] if row["launches"] else [])
        assert bool(row["faults"]) is (code == NONCONFORMANT)


def test_an_op_that_a_backend_lacks_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["races", "--backend", f"{KERNELS}:Right", "--ops", "exp"]) == USAGE
    assert "unknown name 'exp'; there are square" in capsys.readouterr().err
