"""What a seed draws does not depend on what a process has imported, nor on other draws."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, seed
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import HypothesisProvider

from equivalence.budgets.ledger import Ledger
from equivalence.cases.strategies import draw_many, quiet
from equivalence.draws import CONSTANTS, independent, reproducible
from equivalence.runs.results import Row
from equivalence.sessions.drawn import examine_drawn

NUMBERS = st.lists(st.integers(0, 2**40), min_size=8, max_size=8).map(tuple)

WRITTEN = {"drawn": 2 * 10**9, "examined": 3 * 10**9, "alone": 4 * 10**9}
"""Where the 400 numbers of a user's module begin. Hypothesis keeps them: no two are alike."""


THEIRS = getattr(HypothesisProvider, CONSTANTS)
"""What draws constants before any test has begun."""


@pytest.fixture(autouse=True)
def _as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our tests draw from seeds alone; a user's process draws as Hypothesis does."""
    monkeypatch.setattr(HypothesisProvider, CONSTANTS, THEIRS)


def _import_constants(name: str, folder: Path) -> range:
    source = folder / f"of_a_user_{name}.py"
    numbers = range(WRITTEN[name], WRITTEN[name] + 400)
    source.write_text(f"NUMBERS = {list(numbers)}\n")
    made = importlib.util.spec_from_file_location(source.stem, source)
    assert made is not None and made.loader is not None
    module = importlib.util.module_from_spec(made)
    sys.modules[source.stem] = module  # It stays: Hypothesis looks at modules that have a new id.
    made.loader.exec_module(module)
    return numbers


def _drawn() -> list[Any]:
    return draw_many(NUMBERS, 100, 0)


def _examined() -> list[Any]:
    drawn: list[Any] = []

    def judge(*case: Any) -> Any:
        drawn.append(case)
        if len(drawn) < 800:
            return Ledger()
        raise NotImplementedError

    with pytest.raises(NotImplementedError):
        examine_drawn(Row("programs", "value", "fp32"), judge, [NUMBERS], 800, 0)
    return drawn


@pytest.mark.parametrize(("name", "draw"), [("drawn", _drawn), ("examined", _examined)])
def test_a_seed_draws_the_same_whatever_is_imported(
    name: str, draw: Callable[[], list[Any]], tmp_path: Path
) -> None:
    before = draw()
    _import_constants(name, tmp_path)
    assert draw() == before


def test_hypothesis_alone_would_draw_the_numbers_of_a_module(tmp_path: Path) -> None:
    """What is kept away is there: otherwise the test above could not fail."""
    written = _import_constants("alone", tmp_path)
    drawn: list[tuple[int, ...]] = []

    @seed(0)
    @quiet(500, Phase.generate)
    @given(NUMBERS)
    def collect(numbers: tuple[int, ...]) -> None:
        drawn.append(numbers)

    collect()
    assert any(number in written for numbers in drawn for number in numbers)


def test_what_draws_is_put_back_after_an_error() -> None:
    with pytest.raises(RuntimeError), reproducible():
        assert getattr(HypothesisProvider, CONSTANTS) is not THEIRS
        raise RuntimeError
    assert getattr(HypothesisProvider, CONSTANTS) is THEIRS


PAIRS = st.tuples(*[st.integers(0, 2**40)] * 2)


def _twins() -> int:
    """Count the cases of 500 in which two numbers that are drawn apart are one."""
    drawn: list[tuple[int, ...]] = []

    @seed(0)
    @quiet(500, Phase.generate)
    @given(PAIRS)
    def collect(pair: tuple[int, ...]) -> None:
        if all(number > 2**20 for number in pair):
            drawn.append(pair)

    collect()
    return sum(one == other for one, other in drawn)


def test_no_independent_case_is_made_out_of_another() -> None:
    """Hypothesis alone copies one part of a case over another."""
    with reproducible():
        assert _twins() > 10
        with independent():
            assert _twins() == 0
        assert _twins() > 10
