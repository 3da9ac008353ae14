"""What every command says of itself: its version, its own usage, and JSON with a schema."""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path

import pytest

from equivalence.cli import main
from equivalence.cli.commands import parser
from equivalence.cli.options import filled
from equivalence.cli.progress import Progress
from equivalence.cli.work import Book
from equivalence.runs.results import Row


@pytest.mark.parametrize("name", ["python -m equivalence", "twingrad-judge"])
def test_the_program_says_its_version(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser(name).parse_args(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{name} {version('twingrad')}\n"


@pytest.mark.parametrize("command", ["run", "exact", "races", "list", "machine"])
def test_an_unknown_option_shows_the_usage_of_its_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--speed", "9"])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith(f"usage: python -m equivalence {command} ") and "COMMAND" not in said
    assert f"equivalence {command}: error: unrecognized arguments: --speed 9" in said


def test_what_there_is_goes_to_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "list.json"
    assert main(["list", "--json", str(path)]) == 0
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert (plain["schema"], plain["command"]) == (1, "list")
    said = capsys.readouterr().out
    (ops,) = plain["operations"].values()
    assert "softmax" in ops and "torch" in plain["backends"] and plain["profiles"]["ci"] == 30
    assert all(name in said for name in (*ops, *plain["backends"], *plain["profiles"]))


def test_a_row_that_is_not_supported_is_never_at_work() -> None:
    chosen: argparse.Namespace = filled(parser().parse_args(["run", "--backend", "torch"]))[0]
    rows = [Row("gelu", "value", "bf16"), Row("gelu", "value", "fp32")]
    book = Book(chosen, "torch", rows, {"seed": 0}, unsupported=rows[:1])
    book.progress = Progress("torch", 2)
    for row in rows:
        book.started(row)
    assert list(book.progress.working) == ["gelu value fp32"]
