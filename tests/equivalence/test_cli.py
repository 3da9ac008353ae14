"""The command line: exit codes, JSON, and errors that list what exists."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from equivalence.cli import main
from tests.equivalence.backends import fakes

MODULE = "fake_backends"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``fake_backends:Right`` be imported, as a user's own module would be."""
    module = ModuleType(MODULE)
    for name in ("Right", "RightForward", "OneOff", "Raising", "Nothing"):
        setattr(module, name, getattr(fakes, name))
    monkeypatch.setitem(sys.modules, MODULE, module)


def run(name: str, *more: str) -> int:
    backend = f"{MODULE}:{name}"
    return main(["run", "--backend", backend, "--profile", "quick", "--jobs", "1", *more])


@pytest.mark.parametrize(
    ("name", "code"), [("Right", 0), ("RightForward", 0), ("OneOff", 1), ("Raising", 3)]
)
def test_exit_codes_of_a_run(name: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "--ops", "mul") == code
    shown = capsys.readouterr().out
    assert "mul" in shown and "worst fraction of budget" in shown
    assert ("replay: python -m equivalence replay-case" in shown) == (code != 0)


def test_a_run_of_nothing_is_vacuous(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("Nothing", "--ops", "mul") == 4
    assert "unsupported" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--backend", "cuda-magic"], "there are fast-triton, fast-triton-interpreted, fast-aten"),
        (["--backend", "no_such_module:Backend"], "there is no module 'no_such_module'"),
        (["--backend", f"{MODULE}:Missing"], "has no attribute 'Missing'"),
        (["--backend", "json:dumps"], "it has no name, capabilities, value, vjp"),
        (["--backend", f"{MODULE}:Right", "--ops", "mull"], "unknown operation 'mull'; there are"),
        (["--backend", f"{MODULE}:Right", "--profile", "slow"], "there are quick, ci, thorough"),
        (["--backend", f"{MODULE}:Right", "--replay", "/nowhere/at/all"], "no manifest.json"),
    ],
)
def test_usage_errors_say_what_exists(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--jobs", "1", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_json_is_schema_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "deep" / "result.json"
    assert run("OneOff", "--ops", "mul", "add", "--json", str(path), "--seed", "3") == 1
    result = json.loads(path.read_text(encoding="utf-8"))
    assert set(result) == {"schema", "backend", "environment", "rows"}
    assert result["schema"] == 1 and result["backend"] == f"{MODULE}:OneOff"
    assert result["environment"]["seed"] == 3 and result["environment"]["torch"]
    keys = {"op", "direction", "dtype", "cases", "worst_fraction", "contract", "ring", "status"}
    assert all(set(row) == keys for row in result["rows"])
    by_row = {(row["op"], row["direction"], row["dtype"]): row for row in result["rows"]}
    assert by_row["add", "value", "fp32"]["status"] == "unsupported"
    assert by_row["add", "value", "fp32"]["worst_fraction"] is None
    assert by_row["mul", "vjp", "fp32"]["status"] == "conformant"
    assert by_row["mul", "value", "fp32"]["status"] == "nonconformant"
    assert by_row["mul", "value", "fp32"]["worst_fraction"] == "inf"


def test_the_number_of_workers_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = []
    for jobs in ("1", "2"):
        path = tmp_path / f"{jobs}.json"
        common = ["--backend", "torch", "--profile", "quick", "--ops", "relu", "reshape"]
        assert main(["run", *common, "--jobs", jobs, "--json", str(path)]) == 0
        rows.append(json.loads(path.read_text(encoding="utf-8"))["rows"])
    assert rows[0] == rows[1] and len(rows[0]) == 12


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for name in ("fast-aten", "layer_norm", "adamw", "thorough (500 cases)"):
        assert name in shown


def test_replay_case(capsys: pytest.CaptureFixture[str]) -> None:
    case = (
        '{"op":"mul","direction":"value","dtype":"fp32","shapes":[[5],[5]],'
        '"recipes":[["normal",0,"contiguous"],["normal",1,"contiguous"]]}'
    )
    for name, code in (("Right", 0), ("OneOff", 1), ("Raising", 3)):
        assert main(["replay-case", case, "--backend", f"{MODULE}:{name}"]) == code
        assert "worst fraction of budget" in capsys.readouterr().out
    assert main(["replay-case", "{", "--backend", f"{MODULE}:Right"]) == 2
    assert "this is no case" in capsys.readouterr().err


def test_judge_without_recorded_steps_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(tmp_path)]) == 2
    assert "holds no recorded steps" in capsys.readouterr().err
