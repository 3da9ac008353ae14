"""Covering designs: every combination that is allowed meets, in few rows, always the same."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import Any

import pytest

from equivalence.cases.covering import OFTEN, Design, Levels, anything, by_rules, covering

FACTORS: dict[str, tuple[Any, ...]] = {
    "regime": tuple(range(7)),
    "layout": tuple("abcdef"),
    "size": (1, 33, 257),
    "axis": (0, -1),
    "kept": (False, True),
}


def no_short_stride(size: int, layout: str) -> bool:
    return not (size == 1 and layout in "def")


def no_long_tail(size: int, axis: int, kept: bool) -> bool:
    return not (size == 257 and axis == 0 and kept)


def only_with_the_first(regime: int, kept: bool) -> bool:
    return regime == 0 or not kept


RULES = (no_short_stride, no_long_tail, only_with_the_first)


def everything(allowed: Any) -> list[dict[str, Any]]:
    rows = [dict(zip(FACTORS, levels, strict=True)) for levels in product(*FACTORS.values())]
    return [row for row in rows if allowed(row)]


def met(rows: list[dict[str, Any]], together: int) -> set[tuple[tuple[str, Any], ...]]:
    return {chosen for row in rows for chosen in combinations(row.items(), together)}


@pytest.mark.parametrize("strength", [1, 2, 3])
@pytest.mark.parametrize("rules", [(), RULES], ids=["free", "ruled"])
def test_everything_that_an_allowed_row_has_meets(rules: Any, strength: int) -> None:
    allowed = by_rules(*rules)
    rows = covering(FACTORS, allowed, strength)
    assert all(allowed(row) and list(row) == list(FACTORS) for row in rows)
    assert met(rows, strength) == met(everything(allowed), strength)


@pytest.mark.parametrize("strength", [2, 3])
def test_a_design_starts_with_the_weaker_one(strength: int) -> None:
    weaker = covering(FACTORS, by_rules(*RULES), strength - 1)
    assert covering(FACTORS, by_rules(*RULES), strength)[: len(weaker)] == weaker


def test_few_rows_are_enough() -> None:
    assert len(covering(FACTORS, anything, 1)) == 7
    assert len(covering(FACTORS, anything, 2)) <= 7 * 6 + 6


def test_the_same_factors_give_the_same_rows() -> None:
    assert covering(FACTORS, by_rules(*RULES), 2) == covering(FACTORS, by_rules(*RULES), 2)


def test_a_rule_that_sees_no_way_out_is_backed_out_of() -> None:
    """The last factor refuses all that the first ones like, but for one row."""

    def one(regime: int, size: int, kept: bool) -> bool:
        return (regime, size, kept) == (6, 257, True)

    rows = covering(FACTORS, by_rules(one), 2)
    assert {(row["regime"], row["size"], row["kept"]) for row in rows} == {(6, 257, True)}
    assert met(rows, 2) == met(everything(by_rules(one)), 2)


BLOCKS = [{"regime": regime, "layout": layout} for regime in range(7) for layout in "abcdef"]


def in_classes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: halved(name, level) for name, level in row.items()} for row in rows]


def halved(name: str, level: Any) -> Any:
    return level // 2 if name == "regime" else level


def test_of_a_class_each_level_is_met_and_any_of_them_in_pairs() -> None:
    allowed = by_rules(*RULES)
    design = Design(FACTORS, allowed, blocks=BLOCKS, alike=halved)
    assert met(design.rows(1), 1) == met(everything(allowed), 1)
    assert met(in_classes(design.rows(2)), 2) == met(in_classes(everything(allowed)), 2)
    assert met(in_classes(design.rows(3)), 3) == met(in_classes(everything(allowed)), 3)
    met_by = Counter(row["regime"] for row in design.rows(2))
    assert min(met_by[regime] for regime in FACTORS["regime"]) >= OFTEN


def test_dear_blocks_are_taken_no_more_than_they_must_be() -> None:
    def cost(block: Levels) -> float:
        return 100.0 if block["regime"] == 3 else 1.0

    def dear(rows: list[dict[str, Any]]) -> int:
        return sum(row["regime"] == 3 for row in rows)

    weighed = Design(FACTORS, anything, blocks=BLOCKS, cost=cost).rows(2)
    assert met(weighed, 2) == met(everything(anything), 2)
    assert dear(weighed) == len("abcdef")
    assert dear(weighed) <= dear(Design(FACTORS, anything, blocks=BLOCKS).rows(2))


def test_nothing_allowed_is_no_row() -> None:
    def never(size: int) -> bool:
        return False

    assert covering(FACTORS, by_rules(never), 2) == []


def test_no_factors_are_one_row() -> None:
    assert covering({}, anything, 2) == [{}]


def test_levels_that_are_no_keys_may_be_used() -> None:
    shapes: list[Any] = [[1, 2], [3]]
    assert [row["shape"] for row in covering({"shape": shapes}, anything, 1)] == shapes


def test_strength_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="strength 1 or more; got 0"):
        covering(FACTORS, anything, 0)


def test_unfinished_rows_are_asked_about() -> None:
    seen: list[Levels] = []

    def watched(levels: Levels) -> bool:
        seen.append(dict(levels))
        return True

    covering(FACTORS, watched, 1)
    assert any(len(levels) < len(FACTORS) for levels in seen)
