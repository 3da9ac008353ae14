"""How a failure is told: in sentences, in order, once, and the same in JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from equivalence.budgets.outcome import Detail, Outcome
from equivalence.cases.call import CALLING_PATTERNS, CaseSpec, Recipe, attribute_pairs
from equivalence.cases.guard import LAYOUTS
from equivalence.cases.updates.levels import plainest
from equivalence.cases.updates.spec import COMPANY, EVENTS, HANDINGS, Event, UpdateSpec
from equivalence.measure.between.events import without
from equivalence.measure.update import measure_update
from equivalence.runs.choice import kind_of, read_case
from equivalence.runs.failure import Failure
from equivalence.runs.report import in_order, only_one_dtype
from equivalence.runs.results import Row, RowResult, read_row
from equivalence.runs.row.asking import describe_failure
from equivalence.runs.row.sentences import (
    CALLINGS,
    COMPANY_SAID,
    EVENTS_SAID,
    HANDINGS_SAID,
    LAYOUTS_SAID,
    absorbed,
    sentences,
)
from equivalence.runs.row.tally import Tally
from equivalence.runs.runner import run_row
from equivalence.workers import data, notes
from tests.equivalence.backends import declarable

QUICK: dict[str, Any] = {"counted": 8, "seed": 0, "findings": ()}


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        (CALLING_PATTERNS, CALLINGS),
        (LAYOUTS, LAYOUTS_SAID),
        (HANDINGS, HANDINGS_SAID),
        (COMPANY, COMPANY_SAID),
        (("", *EVENTS), EVENTS_SAID),
    ],
)
def test_every_pattern_but_the_plain_one_has_a_sentence(patterns: Any, said: Any) -> None:
    assert set(said) == set(patterns[1:])


def test_a_failing_case_says_its_patterns_in_sentences() -> None:
    text = (
        '{"op":"square","direction":"value","dtype":"fp32","shapes":[[2,3]],'
        '"recipes":[["normal",0,"led"]],"calling":"late"}'
    )
    row, case = read_case(text)
    calling, layout = sentences(kind_of(row), case)
    assert "do two results share memory" in calling
    assert layout.startswith("input 0 lies 'led': its first two axes have changed places")
    assert not list(sentences(kind_of(row), case, cause=""))
    (layout,) = sentences(kind_of(row), case, cause="contiguous")
    assert layout.endswith("are all strides of the tensor read?")


def element(fraction: float) -> Detail:
    inputs = (("input 0[2]", "0.1"), ("cotangent", "[1.0, nan]"))
    return Detail("result", (2,), "0.25", "0.125", "1e-9", fraction, inputs, ("all of them",))


def failure(title: str, fraction: float | None = None, **more: Any) -> Failure:
    return Failure(title, element=None if fraction is None else element(fraction), **more)


def test_the_worst_failure_comes_first_and_near_misses_last() -> None:
    tally = Tally()
    tally.fail("edges", failure("edge"))
    tally.fail("refusals", failure("near-miss"))
    tally.fail("values", failure("small", 2.0))
    tally.fail("values", failure("large", math.inf))
    tally.fail("sizes", failure("middle", 9.0))
    tally.fail("values", failure("raised", kind="crash"))
    tally.fail("sizes", failure("ended", kind="died"))
    assert [f.title for f in tally.shown()] == [
        *("ended", "raised", "large", "middle", "small", "edge", "near-miss")
    ]


def test_a_report_shows_near_misses_of_all_rows_last() -> None:
    near = failure("accepted", source="refusals")
    one = RowResult(
        Row("mul", "value", "fp32"), "nonconformant", failures=(failure("a", 2.0), near)
    )
    two = RowResult(Row("exp", "value", "fp32"), "nonconformant", failures=(failure("b", 5.0),))
    assert [f.title for _, f in in_order([one, two])] == ["b", "a", "accepted"]


def test_the_one_dtype_that_fails_is_named() -> None:
    def row(dtype: str, *failures: Failure) -> RowResult:
        status = "nonconformant" if failures else "conformant"
        return RowResult(Row("exp", "vjp", dtype), status, failures=failures)

    bad = failure("wrong", 2.0)
    (said,) = only_one_dtype([row("fp32"), row("bf16", bad), row("fp16")])
    assert said == "of exp vjp, only bf16 fails; fp32 and fp16 pass"
    assert not list(only_one_dtype([row("fp32"), row("bf16", bad), row("fp16", bad)]))
    assert not list(only_one_dtype([row("bf16", bad)]))


def test_the_same_case_is_shown_once_in_a_row() -> None:
    tally = Tally()
    for slot in ("extras", "values", "values"):
        tally.fail(slot, failure("square(fp32[3]) value", 2.0, replay="replay it"))
    tally.fail("values", failure("square(fp32[3]) value", 2.0, replay="replay another"))
    assert [f.replay for f in tally.shown()] == ["replay it", "replay another"]


def test_a_failure_in_json_is_read_back() -> None:
    failures = (failure("wrong", math.inf, source="values"), failure("raised", kind="crash"))
    row = RowResult(Row("mul", "value", "fp32"), "error", failures=failures)
    plain = json.loads(json.dumps(row.to_dict(), allow_nan=False))
    told = plain["failures"][0]["element"]
    assert told["inputs"] == {"input 0[2]": "0.1", "cotangent": "[1.0, nan]"}
    assert (told["got"], told["exact"], told["budget"]) == ("0.25", "0.125", "1e-9")
    assert read_row(plain) == row
    del plain["failures"][1]["source"], plain["failures"][1]["element"]
    assert read_row(plain) == row, "an older file has none of them"


def lines(backend: type, op: str = "square", direction: str = "value") -> list[str]:
    found = run_row(backend(), Row(op, direction, "fp32"), **QUICK)
    return [line for failure in found.failures for line in failure.lines()]


def test_a_layout_is_named_as_the_cause() -> None:
    said = lines(declarable.Flat)
    assert any(line.strip() == "the same numbers pass when contiguous" for line in said), said
    assert not any("fail in the plain layout" in line for line in said)


def test_a_layout_that_is_not_the_cause_is_not_asked_about() -> None:
    said = lines(declarable.Tail)
    assert any("the same numbers fail in the plain layout" in line for line in said), said
    assert not any("pass when" in line for line in said)


def test_a_shared_buffer_is_named_by_its_calling_pattern() -> None:
    said = lines(Kept)
    assert any("the same numbers pass when called alone" in line for line in said), said
    assert any("do two results share memory" in line for line in said)


class Kept(declarable.Base):
    """Returns one buffer for each shape."""

    def __init__(self) -> None:
        self.held: dict[Any, Any] = {}

    def spoiled(self, found: Any, inputs: Any) -> Any:
        held = self.held.setdefault((tuple(found.shape), found.dtype), found)
        return held if held is found else held.copy_(found)


def test_of_a_case_that_was_made_smaller_the_tail_is_still_named() -> None:
    said = lines(declarable.Tail)
    assert any(line.strip().startswith("of the wrong elements") for line in said), said


def test_a_step_shows_its_numbers_and_settings() -> None:
    hyper = attribute_pairs({**plainest("sgd"), "lr": 0.5})
    case = UpdateSpec("sgd", "fp32", ((7,),), Recipe("normal"), Recipe("normal"), hyper, steps=2)
    contract = declarable.SmallSteps().capabilities().contract("sgd", "fp32")
    detail = measure_update(declarable.SmallSteps(), case, contract).detail
    assert detail is not None and detail.index == (6,), "the worst"
    names = [name for name, _ in detail.inputs]
    assert names == ["parameter 0 before the step", "gradient 0", "settings", "earlier steps"]
    assert (
        "lr=0.5" in dict(detail.inputs)["settings"] and dict(detail.inputs)["earlier steps"] == "0"
    )
    where = "from element 4 on, of 7, beyond the first 4"
    assert detail.common[0] == f"they lie {where}, where no element passes"


def test_what_explains_a_failure_travels_between_processes() -> None:
    row, case = read_case(
        '{"op":"square","direction":"value","dtype":"fp32","shapes":[[2,7]],'
        '"recipes":[["normal",0,"contiguous"]]}'
    )
    backend = declarable.Tail()
    contract = backend.capabilities().contract(row.op, row.dtype)
    outcome = kind_of(row).measure(backend, case, contract)
    assert outcome.detail is not None and outcome.detail.inputs and outcome.detail.common
    assert data.made(Outcome, data.read(data.written(outcome))) == outcome
    found = run_row(backend, row, **QUICK)
    assert any(failure.element for failure in found.failures)
    assert data.made(RowResult, data.read(data.written(found))) == found


def test_a_cause_is_asked_of_a_process_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier process has left of an answer is read as an outcome."""
    left: dict[str, Any] = {}
    keep = lambda question, answer: left.update({question: data.plain(answer)})  # noqa: E731
    monkeypatch.setattr(notes, "answered", keep)
    first = run_row(declarable.Flat(), Row("square", "value", "fp32"), **QUICK)
    monkeypatch.setattr(notes, "answers", lambda: left)
    assert any(text.endswith(" contiguous") for text in left)
    assert run_row(declarable.Flat(), Row("square", "value", "fp32"), **QUICK) == first


@pytest.mark.parametrize(
    ("got", "exact", "x", "g", "told"),
    [
        ("nan", "0", "[1.0, -inf]", "[2.0, 0.0]", True),
        ("nan", "nan or inf", "[1.0, -inf]", "[2.0, 0.0]", False),
        ("nan", "0", "[1.0, -inf]", "[2.0, 1.0]", False),
        ("nan", "0", "[1.0, 2.0]", "[2.0, 0.0]", False),
        ("1.0", "0", "[1.0, -inf]", "[2.0, 0.0]", False),
    ],
)
def test_a_cotangent_of_zero_beside_an_infinity_is_explained(
    got: str, exact: str, x: str, g: str, told: bool
) -> None:
    case = CaseSpec("div", "vjp", "fp32", ((2,), (2,)), (Recipe(), Recipe()), cotangent=Recipe())
    inputs = (("input 0[:]", x), ("cotangent[:]", g))
    detail = Detail("gradient of y", (1,), got, exact, "0", math.inf, inputs)
    assert bool(absorbed(case, detail)) is told
    assert not absorbed(replace(case, direction="value"), detail)


LAID = CaseSpec("exp", "value", "fp32", ((2, 3),), (Recipe(layout="transposed"),))


@pytest.mark.parametrize(
    ("outcome", "asked"),
    [
        (Outcome(crash="took longer than 60 s", end="late"), False),
        (Outcome(crash="exited with code 3", end="died"), False),
        (Outcome(crash="was ended by SIGSEGV", end="died"), True),
        (Outcome(crash="ValueError: no kernel"), True),
    ],
)
def test_no_layout_is_asked_about_where_a_call_hangs_or_exits(
    outcome: Outcome, asked: bool
) -> None:
    kind = kind_of(Row("exp", "value", "fp32"))
    said = describe_failure(kind, "mine", LAID, outcome, None).details
    assert any("strides" in line for line in said) is asked


def test_an_event_that_a_handle_cannot_hear_is_not_said_to_have_happened() -> None:
    how = attribute_pairs(plainest("sgd"))
    case = UpdateSpec("sgd", "fp32", ((7,),), Recipe("normal"), Recipe("normal"), how, steps=2)
    case = replace(case, events=(Event(1, "set_first_lr", 0.5),))
    kind = kind_of(Row("sgd", "update", "fp32"))
    assert any("set_first_lr" in said for said in sentences(kind, case))
    assert not [*sentences(kind, case, None, (without("set_lr"),))]
