"""The command `coverage`: what it counts, and what it says of what is not met."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from equivalence.cases.strata.added import rules
from equivalence.cli.commands import main
from equivalence.runs.results import CONFORMANT, USAGE


def test_a_row_says_what_it_meets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "met.json"
    assert main(["coverage", "--ops", "flip,sgd", "--json", str(path)]) == CONFORMANT
    said = capsys.readouterr().out
    assert "flip value: " in said and "flip vjp: " in said and "sgd update: " in said
    assert "6 kinds x 4 places x 3 sizes, cotangent: 72 of 72" in said
    assert "squares, by rank, axis and keepdims: 20 of 20" in said
    assert "not met" not in said
    plain = json.loads(path.read_text("utf-8"))
    assert (plain["schema"], plain["complete"], plain["request"]["profile"]) == (1, True, "ci")
    value = plain["rows"][0]
    assert ["input 0", "nan", "behind", "blocks"] in value["numbers"]
    assert ["result", 2, 0, 1, "2 to 16", "beyond 256"] in value["extents"]
    assert [2, 1, None] in value["squares"] and value["squares_not_met"] == []


def test_what_no_rule_adds_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "RULES", {})
    rules.added.cache_clear()  # type: ignore[attr-defined]
    try:
        assert main(["coverage", "--ops", "flip"]) == CONFORMANT
    finally:
        rules.added.cache_clear()  # type: ignore[attr-defined]
    said = capsys.readouterr().out
    assert "  not met: input 0, nan, " in said and "  not met: a square of rank 6 along" in said


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (["--ops", "nosuch"], "--ops: unknown name 'nosuch'; there are add, "),
        (["--profile", "sizes"], "--profile sizes has no design of small cases; there are quick"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    asked: list[str], rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["coverage", *asked]) == USAGE
    assert rule in capsys.readouterr().err
