"""Record and replay: what was recorded judges without any oracle, and as strictly."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equivalence.budgets.recorded import Recorded
from equivalence.cases.call import attribute_pairs
from equivalence.cases.updates.design import update_strata
from equivalence.cases.updates.tensors import build_gradients, build_parameters
from equivalence.runs.recorded.archive import compact, load_archive
from equivalence.runs.recorded.recorder import _entry
from equivalence.runs.results import Row, RowResult
from equivalence.runs.run import Request, perform
from equivalence.runs.work import Damaged
from equivalence.worlds.contract import FP32, Contract
from population.judged.member import MemberBackend
from population.registry import named
from tests.equivalence.backends import fakes
from tools.tree import ROOT

pytestmark = pytest.mark.slow

OPS = ["mul", "take", "argmin", "cast", "adamw"]

REPLAY = """
import sys
for name in ("flint", "hypothesis", "rich"):
    sys.modules[name] = None
from equivalence.cli import main
sys.exit(main(["run", "--backend", "torch", "--replay", sys.argv[1], "--jobs", "0", "--ops",
               "mul", "take", "argmin", "cast", "adamw"]))
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
    assert rows["mul value fp32"].status == "declared", "torch broadcasts"
    assert rows["adamw update fp32"].status == "conformant"
    assert rows["take vjp fp32"].cases >= 8
    # What comes in another dtype than the row's is recorded in that one.
    assert rows["argmin value fp32"].status == "declared", "torch lets a scalar have an axis"
    assert rows["cast value fp32"].status == rows["cast vjp fp32"].status == "conformant"


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
    assert {result.status for result in results} == {"recorded"}
    archive = load_archive(tmp_path, Row("relu", "value", "fp32"))
    assert archive.contract.startswith("aten-device") and len(archive.entries) >= 8


def test_compacting_widens_budgets_only() -> None:
    high, low = np.array([1.0, 2.0, 3.0]), np.array([2.0**-60, 0.0, 0.0])
    budget = np.array([2.0**-30 / 3, 0.0, np.inf])
    kinds = np.array([0, 0, 7], dtype=np.uint8)
    small = compact(Recorded((3,), "fp32", high, low, budget, kinds))
    assert small.low.tolist() == [0.0, 0.0, 0.0] and small.high.tolist() == [1.0, 2.0, 3.0]
    assert small.budget[0] >= budget[0] + 2.0**-60
    assert small.budget[0] <= budget[0] * (1 + 2**-14)
    assert small.budget[1:].tolist() == [0.0, np.inf]
    kept = compact(Recorded((3,), "fp64", high, low, budget, kinds))
    assert kept.low.tolist() == low.tolist()


ROW = "mul.value.fp32.npz"


def garbage(folder: Path) -> None:
    (folder / ROW).write_bytes(b"garbage")


def truncated(folder: Path) -> None:
    whole = (folder / ROW).read_bytes()
    (folder / ROW).write_bytes(whole[: len(whole) // 2])


def half_a_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("{", encoding="utf-8")


def a_list(folder: Path) -> None:
    (folder / "manifest.json").write_text("[]", encoding="utf-8")


def files_of_numbers(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"format": 2, "files": [7]}', encoding="utf-8")


def missing_file(folder: Path) -> None:
    (folder / ROW).unlink()


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (garbage, f"holds rows that are damaged: {ROW}; record them again"),
    (truncated, f"holds rows that are damaged: {ROW}; record them again"),
    (half_a_manifest, "manifest.json is damaged: it is no JSON"),
    (a_list, "manifest.json is of format None; this suite reads format 2"),
    (files_of_numbers, "manifest.json is damaged: its files are no list of names"),
    (missing_file, f"lacks what its manifest.json lists: {ROW}"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGES, ids=[d.__name__ for d, _ in DAMAGES])
def test_a_damaged_archive_is_refused_by_name(
    damage: Callable[[Path], None],
    said: str,
    recorded: tuple[Path, list[RowResult]],
    tmp_path: Path,
) -> None:
    folder = shutil.copytree(recorded[0], tmp_path / "copy")
    damage(folder)
    with pytest.raises(Damaged) as refused:
        perform(Request("torch", ops=["mul"], replay=folder))
    assert said in str(refused.value) and "pickle" not in str(refused.value)


@pytest.mark.parametrize("at", [0.2, 0.5, 0.8])
def test_damage_inside_a_row_costs_the_row(
    at: float, recorded: tuple[Path, list[RowResult]], tmp_path: Path
) -> None:
    folder = shutil.copytree(recorded[0], tmp_path / "copy")
    held = bytearray((folder / ROW).read_bytes())
    held[int(at * len(held))] ^= 0xFF
    (folder / ROW).write_bytes(held)
    rows = fp32(perform(Request("torch", ops=["mul"], replay=folder)).results)
    assert rows["mul vjp fp32"].status == "conformant"
    assert rows["mul value fp32"].failures[0].lines() == [
        f"{folder / ROW} is damaged; record the row mul value fp32 again"
    ]


def test_a_recording_goes_on_and_lists_what_is_whole(tmp_path: Path) -> None:
    for ops in (["relu"], ["exp"]):
        perform(Request("torch", ops=ops, profile="quick", record=tmp_path))
    listed = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))["files"]
    assert sorted(listed) == sorted(path.name for path in tmp_path.glob("*.npz"))
    assert {name.split(".")[0] for name in listed} == {"relu", "exp"}
    with pytest.raises(Damaged, match="holds a recording of profile quick and seed 0, not of ci"):
        perform(Request("torch", ops=["exp"], profile="ci", record=tmp_path))
    assert {path.suffix for path in tmp_path.iterdir()} == {".npz", ".json"}


def test_a_folder_of_something_else_is_not_recorded_in(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"letter{number}").write_text("dear", encoding="utf-8")
    with pytest.raises(Damaged, match="holds letter0, letter1, letter2 and 2 more; name a new"):
        perform(Request("torch", ops=["exp"], profile="quick", record=tmp_path))
    with pytest.raises(Damaged, match="holds letter0"):
        perform(Request("torch", ops=["exp"], profile="quick", record=tmp_path / "new" / ".."))
    with pytest.raises(Damaged, match="a file stands there"):
        perform(Request("torch", ops=["exp"], profile="quick", record=tmp_path / "letter0"))


def test_an_older_archive_is_what_lies_there(
    recorded: tuple[Path, list[RowResult]], tmp_path: Path
) -> None:
    folder = shutil.copytree(recorded[0], tmp_path / "copy")
    plain = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    del plain["files"]
    (folder / "manifest.json").write_text(json.dumps(plain), encoding="utf-8")
    again = perform(Request("torch", ops=["mul"], replay=folder)).results
    assert again == [result for result in recorded[1] if result.row.op == "mul"]


def test_an_archive_leaves_a_stable_contract_what_a_live_run_does() -> None:
    """A decay near 1 that is subtracted: 1900 budgets away from the page's own program."""
    first = next(case for case in update_strata("adamw", "fp32") if not case.events)
    hyper = {"lr": 1e-4, "weight_decay": 9999.5, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
    case = replace(
        first,
        steps=1,
        shapes=((40,),),
        parameters=replace(first.parameters, regime="normal"),
        hyper=attribute_pairs({**hyper, "start_step": 0}),
    )
    ((_, parameter),) = build_parameters(case, "cpu")
    ((_, gradient),) = build_gradients(case, 0, "cpu")
    handle = MemberBackend(named("adamw: decay subtracted")).optimizer(
        "adamw", [parameter.view], case.settings()
    )
    assert gradient is not None
    handle.step([gradient.view])
    got = handle.params()[0].double().numpy()
    for freedom, holds in (("stable", True), ("page", False)):
        entry = _entry(case, Contract("test", FP32, FP32, freedom=freedom), True)
        allowed = entry.allowed["step 0, parameter 0, parameter"]
        assert (np.abs(got - allowed.high - allowed.low) <= allowed.budget).all() == holds
