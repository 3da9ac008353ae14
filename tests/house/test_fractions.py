"""What is recorded of runs is what their reports say, and only of runs that passed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tools import record_fractions


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a file that is not there yet."""
    path = tmp_path / "fractions.json"
    monkeypatch.setattr(record_fractions, "RECORD", path)
    return path


def row(op: str, worst: float | None, status: str = "conformant") -> dict[str, Any]:
    """A row of a report."""
    return {
        "op": op, "direction": "value", "dtype": "fp32", "worst_fraction": worst,
        "status": status, "beside": "",
    }  # fmt: skip


def report(tmp_path: Path, *rows: dict[str, Any], complete: bool = True) -> str:
    """The path of a report of these rows."""
    path = tmp_path / "run.json"
    environment = {"profile": "ci", "seed": 0}
    said = {"backend": "torch", "complete": complete, "environment": environment, "rows": rows}
    path.write_text(json.dumps(said), encoding="utf-8")
    return str(path)


def test_the_worst_of_an_op_is_over_its_rows_that_ran(tmp_path: Path, record: Path) -> None:
    """Rows that a backend does not have say nothing."""
    rows = row("exp", 0.25), row("exp", 0.75), row("exp", None, "unsupported"), row("log", 0.0)
    assert record_fractions.main([report(tmp_path, *rows)]) == 0
    assert record_fractions.recorded()["torch"]["worst"] == {
        "exp": {"fraction": 0.75, "declared": False},
        "log": {"fraction": 0.0, "declared": False},
    }


def test_a_part_of_the_ops_replaces_their_numbers_alone(tmp_path: Path, record: Path) -> None:
    """A run of one op leaves the others as they were."""
    record_fractions.main([report(tmp_path, row("exp", 0.25), row("log", 0.5))])
    record_fractions.main([report(tmp_path, row("exp", 0.125))])
    found = record_fractions.recorded()["torch"]["worst"]
    assert {op: said["fraction"] for op, said in found.items()} == {"exp": 0.125, "log": 0.5}


def test_what_a_finding_excuses_is_no_fraction(tmp_path: Path, record: Path) -> None:
    """Beside rows that need none it is named; alone it is all that is said."""
    excused = row("exp", math.inf, "declared"), row("log", 2.0, "declared")
    record_fractions.main([report(tmp_path, row("exp", 0.5), *excused)])
    found = record_fractions.recorded()["torch"]["worst"]
    assert {op: record_fractions.shown(said) for op, said in found.items()} == {
        "exp": "0.50, declared",
        "log": "declared",
    }


@pytest.mark.parametrize("status", ["nonconformant", "ambiguous", "error"])
def test_a_run_with_a_row_that_failed_is_not_recorded(
    tmp_path: Path, record: Path, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    """Nothing is written, and the row is named."""
    path = report(tmp_path, row("exp", 0.25), row("log", 0.5, status))
    assert record_fractions.main([path]) == 1
    assert not record.exists()
    assert f"log value fp32 is {status}" in capsys.readouterr().err


def test_a_run_that_did_not_end_is_not_recorded(tmp_path: Path, record: Path) -> None:
    """Its other rows might have failed."""
    assert record_fractions.main([report(tmp_path, row("exp", 0.25), complete=False)]) == 1
    assert not record.exists()


def test_a_fraction_is_written_as_zero_only_if_it_is() -> None:
    """A small one is said to be small."""
    said = ({"fraction": x, "declared": False} for x in (0.0, 1e-9, 0.996, 0.123))
    assert [*map(record_fractions.shown, said)] == ["0", "< 0.01", "1.00", "0.12"]
    assert record_fractions.shown(None) == "-"
