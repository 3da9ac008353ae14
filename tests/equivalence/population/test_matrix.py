"""The matrix: what the suite says of planted members, its exit codes, its file and its table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from equivalence.cli.commands import main
from equivalence.population import matrix, registry
from equivalence.population.record import Member, right, wrong
from equivalence.population.table import lines, marked, summary
from equivalence.population.verdicts import Verdict, judged
from equivalence.runs.report import aligned


@wrong("tanh value", "value")
def zero(x: Tensor) -> Tensor:
    """It is always zero."""
    return torch.zeros_like(x)


@wrong("tanh value", "value")
def hidden(x: Tensor) -> Tensor:
    """It is wrong nowhere, so that nobody can catch it."""
    return torch.tanh(x)


@right("tanh value", "precision")
def doubly(x: Tensor) -> Tensor:
    """It computes in double."""
    return torch.tanh(x.double()).to(x.dtype)


@right("tanh value", "precision")
def accused(x: Tensor) -> Tensor:
    """It is called right and is not."""
    return torch.tanh(x) + 1


def test_the_suite_tells_them_apart() -> None:
    assert judged(zero, "quick").accepted is False
    assert "tanh value fp32" in judged(zero, "quick").says
    assert judged(doubly, "quick", seeds=2).accepted is True


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ([zero, doubly], 0),
        ([zero, hidden], 1),
        ([doubly, accused], 1),
        ([replace(hidden, indistinguishable="it is torch's own tanh")], 0),
    ],
    ids=["all as they should be", "one passes", "one is refused", "nothing could show it"],
)
def test_exit_codes(
    members: list[Member], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(registry, "everyone", lambda: tuple(members))
    path = tmp_path / "matrix.json"
    asked = ["matrix", "--profile", "quick", "--jobs", "0", "--no-rivals", "--json", str(path)]
    assert main(asked) == code
    runs, verdicts = matrix.read(path)
    assert list(runs) == ["quick"] and list(verdicts) == [m.name for m in members]


def test_who_asks_for_nobody_is_told() -> None:
    assert main(["matrix", "--only", "nobody"]) == 2
    assert main(["matrix", "--seeds", "0"]) == 2
    assert main(["matrix", "--profile", "never"]) == 2


def test_a_file_collects_judges(tmp_path: Path) -> None:
    path = tmp_path / "matrix.json"
    for profile, said in (("quick", True), ("ci", False)):
        verdicts = {zero.name: {profile: Verdict(said, "words", 1.0)}}
        matrix.write(path, matrix.to_plain(profile, [zero], verdicts, 2.0, 1))
    runs, verdicts = matrix.read(path)
    assert list(runs) == ["quick", "ci"]
    assert {j: v.accepted for j, v in verdicts[zero.name].items()} == {"quick": True, "ci": False}


def test_the_table_counts_by_judge_and_by_kind() -> None:
    members = [zero, hidden, doubly]
    verdicts = {
        zero.name: {"ci": Verdict(False), "fuzzed": Verdict(False)},
        hidden.name: {"ci": Verdict(True), "fuzzed": Verdict(None)},
        doubly.name: {"ci": Verdict(False), "fuzzed": Verdict(True)},
    }
    assert list(lines(members, verdicts))[1:] == [
        (zero.name, "value", "caught", "caught"),
        (hidden.name, "value", "missed", "-"),
        (doubly.name, "precision", "refused", "passed"),
    ]
    assert list(summary(members, verdicts)) == [
        ("", "ci", "fuzzed"),
        ("wrong, caught", "1 of 2", "1 of 1"),
        ("right, passed", "0 of 1", "1 of 1"),
        ("value, caught", "1 of 2", "1 of 1"),
    ]
    assert marked(summary(members, verdicts)).splitlines()[1] == "| --- | --- | --- |"
    assert aligned(iter([("a", "b"), ("ccc", "d")])) == "a    b\nccc  d"


def test_a_judge_that_was_not_asked_is_no_success() -> None:
    assert matrix.exit_code("ci", [zero], {zero.name: {}}) == 3
