"""What is kept of a run over all rows at `ci` is of our rows, and has found nothing wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from equivalence.registry import OPS, OPTIMIZERS

RECORD = Path(__file__).parents[4] / "docs" / "inductor.json"


def recorded() -> Any:
    """Read what is kept."""
    return json.loads(RECORD.read_text())


def test_the_record_is_of_all_cases_at_ci() -> None:
    asked = recorded()["request"]
    assert (asked["backend"], asked["profile"], asked["ops"]) == ("fast-inductor", "ci", None)
    assert asked["findings"] is None and not recorded()["environment"]["declared_findings"]


def test_every_row_that_is_offered_is_conformant() -> None:
    rows = recorded()["rows"]
    assert all(row["op"] in OPS or row["op"] in OPTIMIZERS for row in rows)
    for row in rows:
        due = "conformant" if row["op"] in OPS else "unsupported"
        assert row["status"] == due, row
        assert (row["cases"] > 0) is (due == "conformant")


def test_a_row_is_judged_once_or_missing() -> None:
    found = recorded()
    rows = [f"{row['op']} {row['direction']} {row['dtype']}" for row in found["rows"]]
    assert max(Counter([*rows, *found["missing"]]).values()) == 1
    assert found["complete"] is not bool(found["missing"])
