"""What `make full` says of the seconds that ops took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import seconds


def written(folder: Path, name: str, rows: list[dict[str, object]]) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"rows": rows}), encoding="utf-8")
    return str(path)


def test_the_longest_come_first_and_nothing_is_left_out_of_the_sum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seconds, "MOST", 2)
    rows: list[dict[str, object]] = [
        {"op": name, "seconds": {"whole": spent}}
        for name, spent in (("relu", 1.0), ("exp", 5.0), ("relu", 2.0), ("sum", 1.5))
    ]
    run = written(tmp_path, "torch", rows)
    exact = written(tmp_path, "exact", [{"row": "sum value", "seconds": "9.2"}])
    assert seconds.main([run, exact, str(tmp_path / "jax.json")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "seconds by op  torch  exact  all",
        "sum                2      9   11",
        "exp                5      0    5",
        "3 ops             10      9   19",
        "not run here: jax",
    ]
