"""What the oracle said is kept for the next backend that meets the same case, and only for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from equivalence.backends import declared, load
from equivalence.cases.call import CaseSpec
from equivalence.cases.strata.fixed import strata
from equivalence.measure import call
from equivalence.measure.call import measure
from equivalence.measure.kept import Kept, answered, keeping
from spec.op import Op
from spec.ops import OPS
from spec.tensor import tensor

CONTRACT = declared("torch")("exp", "fp32")
CASES = strata("exp", "vjp", "fp32")[:4]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[CaseSpec]:
    """Return the cases that the oracle is asked about from here on."""
    cases: list[CaseSpec] = []
    own = call.expectation

    def expectation(built: Any, *rest: Any) -> Any:
        cases.append(built.case)
        return own(built, *rest)

    monkeypatch.setattr(call, "expectation", expectation)
    return cases


def test_the_oracle_is_asked_once_and_the_verdict_is_the_same(asked: list[CaseSpec]) -> None:
    backends = load("torch"), load("fast-aten")
    alone = [measure(backend, case, CONTRACT) for backend in backends for case in CASES]
    assert asked == [*CASES, *CASES]
    asked.clear()
    with keeping(Kept()):
        together = [measure(backend, case, CONTRACT) for backend in backends for case in CASES]
    assert asked == CASES
    assert together == alone


def test_outside_nothing_is_kept(asked: list[CaseSpec]) -> None:
    with keeping(Kept()):
        measure(load("torch"), CASES[0], CONTRACT)
    measure(load("torch"), CASES[0], CONTRACT)
    assert len(asked) == 2


def counting(memory: Kept) -> tuple[list[Any], Any]:
    told: list[Any] = []

    def ask(case: Any, page: Op, contract: Any) -> Any:
        def now() -> list[Any]:
            told.append((case, page.name))
            return [tensor([0.0] * 10), None]

        with keeping(memory):
            return answered(case, page, contract, now)

    return told, ask


def test_another_contract_and_another_page_are_asked_about_anew() -> None:
    told, ask = counting(Kept())
    other = replace(CONTRACT, flush="outputs")
    again = replace(OPS["exp"])
    for _ in range(2):
        ask(1, OPS["exp"], CONTRACT)
        ask(1, OPS["exp"], other)
        ask(1, again, CONTRACT)
    assert told == [(1, "exp")] * 3


def test_the_next_op_takes_the_place_of_the_last() -> None:
    told, ask = counting(Kept())
    for name in ("exp", "log", "exp"):
        ask(1, OPS[name], CONTRACT)
    assert told == [(1, "exp"), (1, "log"), (1, "exp")]


def test_the_oldest_cases_make_room() -> None:
    told, ask = counting(Kept(most=33))
    for case in (1, 2, 3, 1, 3, 4, 3, 1):
        ask(case, OPS["exp"], CONTRACT)
    assert [case for case, _ in told] == [1, 2, 3, 4, 1]


def test_what_is_larger_than_all_room_is_not_kept() -> None:
    told, ask = counting(Kept(most=5))
    ask(1, OPS["exp"], CONTRACT)
    ask(1, OPS["exp"], CONTRACT)
    assert len(told) == 2
