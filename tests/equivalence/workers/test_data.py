"""What a worker sends is data: it comes back as the form that is expected, or is refused."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import pytest

from equivalence.budgets.outcome import Detail, Outcome, Over
from equivalence.exact.points import Verdict
from equivalence.exact.rows import Found
from equivalence.exact.rows import Row as ExactRow
from equivalence.measure.spent import Spent
from equivalence.runs.failure import Failure
from equivalence.runs.results import Row, RowResult
from equivalence.workers import data

RESULT = RowResult(
    Row("exp", "vjp", "bf16"),
    "nonconformant",
    worst_fraction=float("inf"),
    failures=(Failure("wrong", ("a", "b"), None),),
    declared=({"kind": "case"},),
    spent=Spent(1.0, 0.25, 0.5),
)
OUTCOME = Outcome(
    1.5,
    judged=3,
    detail=Detail("result", (0, 1), "1.0", "2.0", "0.1", 1.5),
    over=(Over("result", "finite", "zero", error=0.5, count=2),),
    end="late",
)
FOUND = Found(
    ExactRow("exp", "value"),
    2,
    Verdict(bound=Fraction(1, 3), orderings=frozenset({1, 2}), kernels=frozenset({"k"})),
    0.5,
)


@pytest.mark.parametrize("value", [RESULT, OUTCOME, FOUND], ids=lambda value: type(value).__name__)
def test_an_answer_comes_back_as_it_was(value: object) -> None:
    assert data.made(type(value), data.read(data.written(value))) == value


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        (int, True),
        (int, 1.0),
        (str, None),
        (tuple[int, ...], 3),
        (tuple[int, str], [1]),
        (Mapping[str, int], [1]),
        (Literal["a", "b"], "c"),
        (Row, {"op": "exp", "direction": "value"}),
        (Row, {"op": "exp", "direction": "value", "dtype": "fp32", "more": 1}),
        (Row | None, {"op": 1, "direction": "value", "dtype": "fp32"}),
    ],
)
def test_what_is_of_another_form_is_refused(form: Any, sent: object) -> None:
    with pytest.raises(data.NotOfForm, match="expected"):
        data.made(form, sent)


@pytest.mark.parametrize("value", [object(), {1: 2}, {"a": Path()}, print])
def test_what_is_no_data_is_not_sent(value: object) -> None:
    with pytest.raises(data.NotOfForm):
        data.plain(value)


def test_a_pickle_is_not_opened() -> None:
    with pytest.raises(data.NotOfForm, match="expected JSON"):
        data.read(pickle.dumps(RESULT))


@dataclass
class Sly:
    """A result that would run code where it is unpickled."""

    number: int

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit",)


def test_a_task_says_what_it_returns() -> None:
    def untyped(number):  # type: ignore[no-untyped-def]
        return number

    with pytest.raises(data.NotOfForm, match="does not say what it returns"):
        data.returned(untyped)
    assert data.made(Sly, data.read(data.written(Sly(3)))).number == 3
