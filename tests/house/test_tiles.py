"""The record of tiles: what makes it stale, and what becomes of libraries that are not here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools import generate_tiles, record_tiles

ROW = {"target": "sm_90", "kernel": "_product_kernel", "dtype": "bf16", "tile": "small",
       "order": "rows, rows", "registers": 58}  # fmt: skip
THEIRS = {"target": "sm_90", "library": "flag_gems", "op": "bmm", "kernel": "bmm_kernel",
          "dtype": "bf16", "registers": 47}  # fmt: skip


def said(**changed: Any) -> dict[str, Any]:
    """What a record says of one tile and one kernel of a stranger."""
    whole: dict[str, Any] = {"triton": "3.7.1", "libraries": {"flag_gems": "5.0.2"}}
    return whole | {"tiles": [ROW], "strangers": [THEIRS]} | changed


AWAY = said(libraries={}, strangers=[])
"""What is compiled where FlagGems is not installed."""


@pytest.mark.parametrize(
    ("now", "stale"),
    [
        (said(), None),
        (AWAY, None),
        (said(tiles=[ROW | {"registers": 60}]), "sm_90 _product_kernel bf16 small rows, rows"),
        (said(tiles=[]), "sm_90 _product_kernel bf16 small rows, rows"),
        (said(tiles=[ROW, ROW | {"order": "any"}]), "sm_90 _product_kernel bf16 small any"),
        (said(strangers=[THEIRS | {"registers": 1}]), "sm_90 flag_gems bmm bmm_kernel bf16"),
        (said(libraries={"flag_gems": "6"}, strangers=[]), "flag_gems 6"),
    ],
)
def test_other_facts_make_the_record_stale(now: dict[str, Any], stale: str | None) -> None:
    found = record_tiles.differences(said(), now)
    assert len(found) == (stale is not None)
    assert all(f"docs/tiles.json: {stale}; if meant, make tiles" in line for line in found)


def test_facts_of_another_triton_are_not_compared() -> None:
    (found,) = record_tiles.differences(said(), said(triton="3.6.0", tiles=[]))
    assert "are those of triton 3.7.1, and this is 3.6.0" in found


def test_what_was_said_of_a_library_that_is_not_here_stays() -> None:
    assert record_tiles.kept(said(), AWAY) == said()
    other = said(libraries={"flag_gems": "6"}, strangers=[THEIRS | {"registers": 1}])
    assert record_tiles.kept(said(), other) == other


def test_the_record_is_read_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_tiles, "RECORD", tmp_path / "tiles.json")
    record_tiles.write(record_tiles.RECORD, said(tiles=[ROW, ROW]))
    assert record_tiles.recorded() == said(tiles=[ROW, ROW])


def test_the_document_names_every_library_with_its_version() -> None:
    text, facts = generate_tiles.generate(), record_tiles.recorded()
    assert facts["libraries"].keys() == generate_tiles.LIBRARIES.keys()
    for library, version in facts["libraries"].items():
        assert f"{generate_tiles.LIBRARIES[library]} {version}" in text
