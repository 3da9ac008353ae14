"""The command line: exit codes, JSON, and errors that list what exists."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from equivalence.cli import main
from equivalence.runs.choice import kind_of
from equivalence.runs.results import Row
from tests.equivalence.backends import fakes
from tests.support import untimed
from tools.tree import ROOT

pytestmark = pytest.mark.slow

MODULE = "fake_backends"
NAMES = ("Right", "RightForward", "OneOff", "Raising", "Nothing", "Bare", "Silent", "Misspelt")
NAMES += ("Mistyped", "Undescribed", "Trespassing", "Lenient")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``fake_backends:Right`` be imported, as a user's own module would be."""
    module = ModuleType(MODULE)
    for name in NAMES:
        setattr(module, name, getattr(fakes, name))
    monkeypatch.setitem(sys.modules, MODULE, module)


def run(name: str, *more: str) -> int:
    backend = f"{MODULE}:{name}"
    return main(["run", "--backend", backend, "--profile", "quick", "--jobs", "0", *more])


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
    assert "unsupported by the backend: 6 rows of mul" in capsys.readouterr().out


def test_what_is_unsupported_takes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("Right", "--ops", "mul,add", "exp,log", "sqrt") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [
        ["mul", "value", "fp32"],
        ["mul", "vjp", "fp32"],
    ]
    assert lines[3] == "unsupported by the backend: 28 rows of add, mul, sqrt, exp, log"
    assert lines[4:] == ["", lines[-1]] and "28 unsupported, 2 conformant" in lines[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--backend", "cuda-magic"], "there are fast-triton, fast-triton-interpreted, fast-aten"),
        (["--backend", "no_such_module:Backend"], "there is no module 'no_such_module'"),
        (["--backend", f"{MODULE}:Missing"], "has no attribute 'Missing'"),
        (["--backend", "json:dumps"], "it has no name, capabilities, value, vjp"),
        (
            ["--backend", f"{MODULE}:Right", "--ops", "mull"],
            "unknown operation 'mull' (nearest: mul",
        ),
        (["--backend", f"{MODULE}:Right", "--profile", "slow"], "there are quick, ci, thorough"),
        (["--backend", f"{MODULE}:Right", "--replay", "/nowhere/at/all"], "no manifest.json"),
        (["--backend", f"{MODULE}:Misspelt"], "unknown operation 'squre' (nearest: square"),
        (["--backend", f"{MODULE}:Mistyped"], "unknown dtype 'float32' (nearest: "),
        (["--backend", f"{MODULE}:Undescribed"], "capabilities() returned dict, where equivalence"),
        (["--backend", f"{MODULE}:Right", "--json", "/nope/x.json"], "there is no folder /nope"),
        (["--backend", f"{MODULE}:Right", "--findings", "/nope.toml"], "No such file"),
        (["--backend", f"{MODULE}:Right", "--ring", "host"], "it needs --record DIR"),
        (["--backend", f"{MODULE}:Right", "--record", "a", "--replay", "b"], "exclude each other"),
        ([], "--backend is missing"),
    ],
)
def test_usage_errors_say_what_exists(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--jobs", "0", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--help"], ["--profile", "ci", "--only", "softmax: *"]])
def test_a_command_that_went_elsewhere_says_where(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["matrix", *more]) == 2
    assert capsys.readouterr().err == (
        "error: matrix has moved: use python -m population, in a checkout of the repository\n"
    )


def test_json_is_schema_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"
    assert run("OneOff", "--ops", "mul", "add", "--json", str(path), "--seed", "3") == 1
    result = json.loads(path.read_text(encoding="utf-8"))
    assert set(result) == {
        *("schema", "backend", "complete", "environment", "rows", "missing", "command", "request")
    }
    assert result["complete"] is True and result["missing"] == []
    assert result["schema"] == 2 and result["backend"] == f"{MODULE}:OneOff"
    assert result["environment"]["seed"] == 3 and result["environment"]["torch"]
    keys = {"op", "direction", "dtype", "cases", "worst_fraction", "contract", "ring", "status"}
    keys |= {"inferred", "judged", "unconstrained", "beside", "failures", "declared"}
    keys |= {"proposed", "seconds", "page_fraction", "freedom", "under", "wide", "left_out"}
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
    for jobs in ("0", "2"):
        path = tmp_path / f"{jobs}.json"
        common = ["--backend", "torch", "--profile", "quick", "--ops", "relu", "reshape"]
        assert main(["run", *common, "--jobs", jobs, "--json", str(path)]) == 0
        rows.append(untimed(json.loads(path.read_text(encoding="utf-8"))))
    assert rows[0] == rows[1] and len(rows[0]) == 16


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
        assert main(["replay-case", case, "--backend", f"{MODULE}:{name}", "--jobs", "0"]) == code
        assert "worst fraction of budget" in capsys.readouterr().out
    large = case.replace("[[5],[5]]", "[[65601],[65601]]")[:-1] + ',"sized":"reals"}'
    for name, code in (("Right", 0), ("OneOff", 1)):
        assert main(["replay-case", large, "--backend", f"{MODULE}:{name}", "--jobs", "0"]) == code
        assert "mul(fp32[65601], fp32[65601]) value, reals" in capsys.readouterr().out
    assert main(["replay-case", "{", "--backend", f"{MODULE}:Right"]) == 2
    assert "this is not a case" in capsys.readouterr().err


def test_judge_without_recorded_steps_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(tmp_path)]) == 2
    assert "holds no recorded steps" in capsys.readouterr().err


def test_the_line_that_replays_a_failure_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("OneOff", "--ops", "square") == 1
    shown = capsys.readouterr().out
    told = next(text for text in shown.splitlines() if "replay: " in text)
    arguments = shlex.split(told.partition("replay: ")[2])
    assert arguments[:4] == ["python", "-m", "equivalence", "replay-case"]
    assert main([*arguments[3:], "--jobs", "0"]) == 1
    assert "square(" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "kind"), [("Bare", "Tensor"), ("Silent", "NoneType")])
def test_a_vjp_returns_a_list(name: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "--ops", "square") == 1
    assert (
        f"vjp of square returned {kind}; wanted is a list with one gradient per input, "
        "None at inputs of indices and of masks: here, one entry"
    ) in capsys.readouterr().out


WITHOUT = """
import sys
sys.modules["flint"] = sys.modules["hypothesis"] = None
from equivalence.cli import main
from equivalence.runs.choice import kind_of
from equivalence.runs.results import Row
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", [["run", "--backend", "torch"], ["programs"], ["machine"]])
def test_a_missing_library_names_the_extra_once(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *command], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == (
        "error: judging needs python-flint and hypothesis, which cannot be imported here; install "
        "the extra [check]: in a checkout of twingrad, pip install '.[check]', from a wheel, "
        "pip install 'FILE.whl[check]'\n"
    )


FINDING = """
[[finding]]
kind = "case"
backend = "right"
op = "mul"
direction = "value"
reason = "known here"
regimes = { "input 0" = ["%s"] }
got = ["finite"]
%s
case = '''{"op":"mul","direction":"value","dtype":"fp32","shapes":[[5],[5]],
"recipes":[["%s",0,"contiguous"],["%s",0,"contiguous"]]}'''
"""


def test_findings_of_ones_own_are_read_and_are_strict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "known.toml"
    narrow = FINDING % ("offset", "error = 1.9073486328125e-06", "offset", "kinks")
    path.write_text(narrow, encoding="utf-8")
    assert run("OneOff", "--ops", "mul", "--findings", str(path)) == 1, "it is not all that fails"
    assert "declared: mul value fp32 (case): known here" in capsys.readouterr().out
    assert run("Right", "--ops", "mul", "--findings", str(path)) == 1
    assert "declared finding passes" in capsys.readouterr().out
    path.write_text("[[finding]]\nkind = 'case'\n", encoding="utf-8")
    assert run("OneOff", "--ops", "mul", "--findings", str(path)) == 2
    assert "known.toml: finding 1: unknown keys [], missing" in capsys.readouterr().err


def test_what_fails_can_be_declared_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, result = tmp_path / "known.toml", tmp_path / "result.json"
    assert run("Lenient", "--ops", "mul", "--declare", str(path)) == 1
    assert f"findings in {path}; add a reason to each" in capsys.readouterr().out
    assert run("Lenient", "--ops", "mul", "--findings", str(path)) == 2
    said = capsys.readouterr().err
    about = "finding 1, mul value fp32 (near-miss)"
    assert f"known.toml: {about}, has no reason: write in 'reason'" in said
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('reason = ""', 'reason = "so it is"'), encoding="utf-8")
    known = ["--ops", "mul", "--findings", str(path), "--json", str(result)]
    assert run("Lenient", *known) == 0
    shown = capsys.readouterr().out
    assert "so it is" in shown and "1 declared" in shown.splitlines()[-1] + shown
    rows = json.loads(result.read_text(encoding="utf-8"))["rows"]
    assert {row["status"] for row in rows if row["dtype"] == "fp32"} == {"declared", "conformant"}
    assert main(["run", "--resume", str(result), "--jobs", "0"]) == 0


@pytest.mark.parametrize("more", [["--record", "a"], ["--replay", "a"]])
def test_findings_are_proposed_of_live_runs_alone(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("Right", "--declare", str(tmp_path / "x.toml"), *more) == 2
    assert "--declare needs a live run" in capsys.readouterr().err


def test_a_fence_is_put_around_what_any_backend_allocates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("Trespassing", "--ops", "square") == 0, "without a fence there is no room to store"
    assert run("Trespassing", "--ops", "square", "--fence") == 1
    shown = capsys.readouterr().out
    assert "1 elements overwritten past the end of fresh memory of shape [" in shown
    told = next(text for text in shown.splitlines() if "replay: " in text)
    arguments = shlex.split(told.partition("replay: ")[2])
    assert arguments[-1] == "--fence" and main([*arguments[3:], "--jobs", "0"]) == 1
    assert run("Right", "--ops", "square", "--fence") == 0


def test_the_share_of_the_oracle_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("Right", "--ops", "square") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.search(r"; \d+ s of work, oracle \d+ %, backend \d+ % \(seed 0\)$", last), last


def test_a_row_goes_on_behind_cases_that_end_or_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Wrong results, an exit and a hang in one row: all are told, and the next row is judged."""
    first, second = (case.shapes[0] for case in kind_of(Row("square", "value", "fp32")).fixed()[:2])
    monkeypatch.setenv("EXITS_AT", str(list(first)))
    monkeypatch.setenv("HANGS_AT", str(list(second)))
    path = tmp_path / "result.json"
    backend = "tests.equivalence.backends.fakes:Mortal"
    asked = ["--ops", "square", "--profile", "quick", "--jobs", "1", "--call-limit", "1"]
    assert main(["run", "--backend", backend, *asked, "--json", str(path)]) == 3
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    value, vjp = (row for row in rows if row["dtype"] == "fp32")
    assert vjp["status"] == "conformant"
    assert (value["status"], value["beside"]) == ("error", "nonconformant")
    assert value["judged"] > 0 and value["cases"] > 0
    told = {failure["kind"]: failure for failure in value["failures"]}
    assert told["died"]["details"][0] == "the process exited with code 7"
    assert told["late"]["details"][0] == "the call took longer than 1 s"
    assert f"fp32{list(first)}".replace(" ", "") in told["died"]["title"]
    assert f"fp32{list(second)}".replace(" ", "") in told["late"]["title"]
    assert told["late"]["replay"].endswith(backend) and "wrong" in told
    shown = capfd.readouterr()
    assert "error, else nonconformant" in shown.out
    # A pipe is told of the row once it has ended, whatever ended before it.
    lines = [line for line in shown.err.splitlines() if line.startswith("[")]
    ended = {line.partition("] ")[2].partition(", ")[0] for line in lines if "still" not in line}
    assert ended >= {"square value fp32: error", "square vjp fp32: conformant"}


def test_a_folder_that_is_no_recording_is_not_recorded_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    assert run("Right", "--ops", "mul", "--record", str(tmp_path)) == 2
    assert "is not empty: it holds letter.txt" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("name", "package"), [("twingrad-judge", "equivalence"), ("twingrad-train", "fast")]
)
def test_console_scripts_run(name: str, package: str) -> None:
    """In a process of its own, as a command ends its process."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    target = scripts["project"]["scripts"][name]
    assert target.startswith(package)
    module, _, attribute = target.partition(":")
    code = f"import sys; from {module} import {attribute}; sys.exit({attribute}())"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {name}")


def test_the_script_finds_a_backend_beside_its_caller(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(
        "from tests.equivalence.backends.fakes import Right\n", encoding="utf-8"
    )
    code = "import sys; sys.path.remove(''); from equivalence.cli import script; sys.exit(script())"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--backend", "beside:Right", "--ops", "exp"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 4, done.stderr
