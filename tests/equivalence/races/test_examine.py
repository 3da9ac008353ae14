"""What counts as caught, what a run says, and that it fails where it should."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from equivalence.cli.races import summary
from equivalence.races.examine import Examined, Tried, has_cases
from equivalence.races.fault import Fault, Place
from equivalence.races.planted import PLANTED
from equivalence.runs.results import CONFORMANT, NONCONFORMANT, USAGE
from fast.binaries import driving
from fast.ops import OPS
from tools.tree import ROOT

PLANT = PLANTED[0]
FOUND = Fault(PLANT.kind, PLANT.kernel, Place("fast/optim/_kernels.py", 32, PLANT.line), "so")
CLEAN = Examined("adamw", 15, 12, 60, ("_moments_kernel",), (), 1.0)
TRIED = Tried(0, FOUND, 1.0)


@pytest.mark.parametrize(
    "found",
    [
        None,
        replace(FOUND, kind="read out of bounds"),
        replace(FOUND, kernel="_other_kernel"),
        replace(FOUND, place=Place("fast/optim/_kernels.py", 31, "another line")),
    ],
)
def test_a_fault_is_caught_by_kind_kernel_and_line(
    found: Fault | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert TRIED.caught
    missed = replace(TRIED, found=found)
    assert not missed.caught and "NOT FOUND" in missed.line()
    assert summary([missed], [CLEAN]) == NONCONFORMANT
    said = capsys.readouterr().out
    assert PLANT.name in said and "0 of 1 planted faults found" in said


def test_a_fault_fails_the_run_with_kernel_line_and_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    faulty = replace(CLEAN, faults=(("adamw step fp32, an example", FOUND),))
    assert summary([TRIED], [faulty]) == NONCONFORMANT
    said = capsys.readouterr().out
    assert f"race in _moments_kernel, fast/optim/_kernels.py:32: `{PLANT.line}`: so" in said
    assert "1 faults" in said


def test_a_value_that_was_stopped_has_no_gradient_to_watch() -> None:
    """Nobody starts them here, as if each had met a fault; the others are still yielded."""
    directions = [example[0] for example in driving.examples("relu")]
    assert len(directions) >= 3 and set(directions) == {"value"}


def test_only_a_run_that_launched_something_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert summary([TRIED], [CLEAN]) == CONFORMANT
    assert summary([TRIED], [CLEAN, replace(CLEAN, name="exp", launches=0)]) == NONCONFORMANT
    assert "no kernel was launched for exp" in capsys.readouterr().out


def test_cases_of_one_entrywise_op_of_each_kind_are_watched() -> None:
    entrywise = [name for name, op in OPS.items() if op.entrywise]
    kept = [name for name in entrywise if has_cases(name)]
    arities = {len(OPS[name].inputs) for name in entrywise}
    assert sorted(len(OPS[name].inputs) for name in kept) == sorted(arities)
    assert all(has_cases(name) for name, op in OPS.items() if not op.entrywise)


def test_without_the_tool_the_command_fails_and_says_what_to_do() -> None:
    hidden = "import sys; sys.modules['ttsem'] = None\n"
    program = hidden + "from equivalence.cli import main; sys.exit(main(['races', '--jobs', '1']))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == USAGE
    assert "races needs ttsem 0.1.0, which is not here: `make races` sets it up" in done.stderr


def test_an_unknown_op_is_refused() -> None:
    command = [sys.executable, "-m", "equivalence", "races", "--ops", "plus"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == USAGE and "unknown name 'plus'" in done.stderr
