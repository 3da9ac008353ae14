"""The commands that need no backend: rows are chosen, judged, reported and written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from equivalence.cli.commands import main
from equivalence.sessions import programs
from equivalence.sessions.rows import COMMANDS, GRAPHS, Task
from fast.runtime.param import Param

QUICK = ["--profile", "quick", "--jobs", "0"]


def test_programs_are_judged_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    only = ["--only", "clipped aten *,drawn aten fp32"]
    assert main(["programs", *QUICK, *only, "--json", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split()[:3] == ["row", "provider", "precision"]
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert plain["command"] == "programs" and plain["complete"] is True
    rows = {f"{row['op']} {row['direction']} {row['dtype']}": row for row in plain["rows"]}
    assert set(rows) == {"clipped aten fp32", "drawn aten fp32"}
    assert rows["drawn aten fp32"]["cases"] == 8
    assert all(row["status"] == "conformant" and row["judged"] > 16 for row in rows.values())


@pytest.mark.parametrize(
    ("command", "row"), [("trainers", "mean aten fp32"), ("curvature", "product aten fp64")]
)
def test_drawn_rows_are_judged(command: str, row: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, *QUICK, "--only", row]) == 0
    assert "1 conformant; 8 cases" in capsys.readouterr().out


def test_a_program_that_breaks_a_promise_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_ = Param.set

    def late(self: Param, value: object) -> None:
        set_(self, value * 1.001)

    monkeypatch.setattr(Param, "set", late)
    assert main(["programs", *QUICK, "--only", "lived aten fp32"]) == 1
    shown = capsys.readouterr().out
    assert "nonconformant" in shown and "in the program lived" in shown
    assert "This program replays it:" in shown and "run = Run('aten', 'fp32', 'normal')" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--only", "lifed *"],
            "--only 'lifed *' matches no row of programs; there are perceptron aten",
        ),
        (["--provider", "cuda"], "unknown provider 'cuda'; there are aten, triton"),
        (["--provider", "aten", "--only", "* triton *"], "no row matches both"),
        (["--profile", "slow"], "there are quick, ci, thorough"),
        (["--json", "/nope/x.json"], "there is no folder /nope; make it first"),
    ],
)
def test_usage_errors_say_what_there_is(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["programs", "--jobs", "0", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not Path("/nope").exists()


def test_every_program_has_rows_and_so_has_every_configuration_of_graphs() -> None:
    named = {row.op for row in COMMANDS["programs"].rows(Task("quick", 0))}
    assert named == {program.__name__ for program in programs.PROGRAMS} | {"drawn", "dags-0"}
    assert len(GRAPHS) == 4
