"""A change is asked for what it changed and a turn of the rest, so that nothing is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from spec import OPS
from tests import turns
from tests.turns import of_pages
from tools import rotation
from tools.rotation import JUDGED, TURNS, chosen, digests, recorded

NAMES = [f"op{k}" for k in range(2 * TURNS)]


def small_tree(plant: Callable[[str, str], None]) -> None:
    """Write a table of pages, all judged."""
    plant("spec/ops/__init__.py", f"OPS = ({', '.join(f'_{name}' for name in NAMES)})\n")
    for name in NAMES:
        plant(f"spec/ops/{name}.py", "x = 1\n")
        plant(f"fast/ops/{name}.py", "y = 1\n")


def record(root: Path, plant: Callable[[str, str], None]) -> None:
    plant(JUDGED, json.dumps({"schema": 1, "pages": digests(root)}))


def test_every_page_has_its_turn(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    small_tree(plant)
    assert len(chosen(tmp_path, 0)) == len(NAMES) // TURNS, "so many pages are left to a full run"
    record(tmp_path, plant)
    found = [chosen(tmp_path, turn) for turn in range(TURNS)]
    assert sorted(name for turn in found for name in turn) == sorted(NAMES)
    assert chosen(tmp_path, TURNS) == found[0]


def test_what_is_recorded_is_every_page_as_it_is(
    tmp_path: Path, plant: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tree(plant)
    plant(JUDGED, json.dumps({"op1": "stale", "gone": "page"}))
    monkeypatch.setattr(rotation, "ROOT", tmp_path)
    assert rotation.main(["--record"]) == 0
    written = json.loads((tmp_path / JUDGED).read_text(encoding="utf-8"))
    assert written == {"schema": 1, "pages": digests(tmp_path)}
    assert list(recorded(tmp_path)) == NAMES
    assert len({name for turn in range(TURNS) for name in chosen(tmp_path, turn)}) == len(NAMES)
    assert len(chosen(tmp_path, 0)) == len(NAMES) // TURNS


def test_a_changed_page_is_chosen_in_every_turn(
    tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    small_tree(plant)
    record(tmp_path, plant)
    plant("fast/ops/op1.py", "y = 2\n")
    assert all("op1" in chosen(tmp_path, turn) for turn in range(TURNS))
    plant("fast/ops/op2.py", "y = 2\n")
    assert all({"op1", "op2"} <= set(chosen(tmp_path, turn)) for turn in range(TURNS))


def test_of_a_page_that_changed_no_case_is_left_to_full_runs(
    tmp_path: Path, plant: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tree(plant)
    record(tmp_path, plant)
    plant("fast/ops/op1.py", "y = 2\n")
    monkeypatch.setattr(turns, "ROOT", tmp_path)
    cases = [("op0", "value"), ("op1", "value"), ("op2", "value"), ("op1", "vjp")]
    turns._changed.cache_clear()
    tried = [case.values for case in of_pages(cases, 3) if not case.marks]
    turns._changed.cache_clear()
    assert tried == cases[1:]


def test_an_older_record_is_read_and_a_newer_one_refused(
    tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    small_tree(plant)
    plant(JUDGED, json.dumps(digests(tmp_path)))
    assert recorded(tmp_path) == digests(tmp_path)
    plant(JUDGED, json.dumps({"schema": 2, "pages": {}}))
    with pytest.raises(ValueError, match="schema 2; read are 1"):
        chosen(tmp_path, 0)


def test_a_rarer_turn_asks_less_of_each_change_and_leaves_nothing_out(
    tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    small_tree(plant)
    record(tmp_path, plant)
    rare = 2 * TURNS
    found = [chosen(tmp_path, turn, rare) for turn in range(rare)]
    assert {len(turn) for turn in found} == {len(NAMES) // rare}
    assert sorted(name for turn in found for name in turn) == sorted(NAMES)


def test_what_draws_numbers_is_not_compiled_in_each_change_and_an_optimizer_never() -> None:
    pages = ["add", "dropout", "sgd", "rand_normal"]
    assert rotation.compiled(pages, drawing=False) == ["add"]
    assert rotation.compiled(pages, drawing=True) == ["dropout", "rand_normal"]


def test_what_draws_numbers_is_a_step_of_its_own_and_nothing_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = []
    for which in ["--compiled"], ["--drawing"], []:
        assert rotation.main(["--all", *which]) == 0
        parts.append(capsys.readouterr().out.split())
    quick, drawing, every = parts
    assert "dropout" in drawing and "add" in quick
    assert sorted(quick + drawing) == sorted(every) == sorted(OPS)
