"""Record and replay: what was recorded judges without any oracle, and as strictly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from equivalence.budgets.recorded import Recorded
from equivalence.runs.archive import compact, load_archive
from equivalence.runs.results import Row, RowResult
from equivalence.runs.run import Request, perform
from tests.equivalence.backends import fakes
from tools.tree import ROOT

OPS = ["mul", "layer_norm", "take", "adamw", "sgd"]

REPLAY = """
import sys
for name in ("flint", "hypothesis", "rich"):
    sys.modules[name] = None
from equivalence.cli import main
sys.exit(main(["run", "--backend", "torch", "--replay", sys.argv[1], "--jobs", "1", "--ops",
               "mul", "take", "adamw", "sgd"]))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[RowResult]]:
    folder = tmp_path_factory.mktemp("archive")
    request = Request("torch", ops=OPS, profile="quick", record=folder)
    return folder, perform(request).results


def fp32(results: list[RowResult]) -> dict[str, RowResult]:
    return {str(result.row): result for result in results if result.row.dtype == "fp32"}


def test_recording_judges_too(recorded: tuple[Path, list[RowResult]]) -> None:
    rows = fp32(recorded[1])
    assert rows["mul value fp32"].status == "conformant"
    assert rows["adamw update fp32"].status == "conformant"
    assert rows["take vjp fp32"].cases == 8


def test_a_replay_gives_the_same_verdict(recorded: tuple[Path, list[RowResult]]) -> None:
    folder, first = recorded
    again = perform(Request("torch", ops=OPS, replay=folder)).results
    assert again == first


def test_a_live_run_and_a_replay_agree(recorded: tuple[Path, list[RowResult]]) -> None:
    live = fp32(perform(Request("torch", ops=["mul", "take"], profile="quick")).results)
    replayed = fp32(recorded[1])
    for name, result in live.items():
        other = replayed[name]
        assert (other.status, other.cases, other.judged) == (
            result.status,
            result.cases,
            result.judged,
        )
        # A recorded budget is rounded up by less than 2^-15 of itself, never down.
        assert result.worst_fraction is not None and other.worst_fraction is not None
        assert other.worst_fraction <= result.worst_fraction
        assert other.worst_fraction >= result.worst_fraction * (1 - 2**-14)


def test_a_replay_needs_neither_flint_nor_hypothesis(
    recorded: tuple[Path, list[RowResult]],
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, str(recorded[0])], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "adamw" in done.stdout


def test_a_replay_catches_what_a_live_run_catches(recorded: tuple[Path, list[RowResult]]) -> None:
    folder = recorded[0]
    for backend in (fakes.OneOff(), fakes.Overwriting(), fakes.Unwritten(), fakes.Broadcasting()):
        done = perform(Request("fake", ops=["mul"], replay=folder), backend=backend)
        assert fp32(done.results)["mul value fp32"].status == "nonconformant"


def test_a_replay_of_another_contract_is_refused(recorded: tuple[Path, list[RowResult]]) -> None:
    done = perform(Request("fast-aten", ops=["take"], replay=recorded[0]))
    assert all(result.status == "error" for result in done.results)
    assert "recorded for 'torch take" in done.results[0].failures[0].title


def test_what_was_not_recorded_is_vacuous(recorded: tuple[Path, list[RowResult]]) -> None:
    done = perform(Request("torch", ops=["exp"], replay=recorded[0]))
    assert all(result.status == "vacuous" for result in done.results)


def test_another_ring_is_recorded_without_being_judged(tmp_path: Path) -> None:
    request = Request("fast-aten", ops=["relu"], profile="quick", record=tmp_path, ring="device")
    results = perform(request).results
    assert {result.status for result in results} == {"vacuous"}
    archive = load_archive(tmp_path, Row("relu", "value", "fp32"))
    assert archive.contract.startswith("aten-device") and len(archive.entries) >= 8


def test_compacting_widens_budgets_only() -> None:
    high, low = np.array([1.0, 2.0, 3.0]), np.array([2.0**-60, 0.0, 0.0])
    budget = np.array([2.0**-30 / 3, 0.0, np.inf])
    small = compact(Recorded((3,), "fp32", high, low, budget))
    assert small.low.tolist() == [0.0, 0.0, 0.0] and small.high.tolist() == [1.0, 2.0, 3.0]
    assert small.budget[0] >= budget[0] + 2.0**-60
    assert small.budget[0] <= budget[0] * (1 + 2**-14)
    assert small.budget[1:].tolist() == [0.0, np.inf]
    kept = compact(Recorded((3,), "fp64", high, low, budget))
    assert kept.low.tolist() == low.tolist()
