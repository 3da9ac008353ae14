"""Second derivatives of single ops, at small calls of their own designs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from equivalence.budgets.violation import Violation
from equivalence.cases.call import case_from_dict
from equivalence.cases.covering import PAIRS, SINGLES
from equivalence.runs.results import Row
from equivalence.sessions.curvature.ops import CURVES, calls, judge_call, plain
from equivalence.sessions.rows import CURVATURE, Task, judge_row
from fast.ops import hardsigmoid, hardswish
from fast.programs import forward
from spec.ops import OPS
from tests.turns import in_turns

ROWS = [row for row in CURVATURE if row.op in CURVES]


@pytest.mark.holds("Higher derivatives, and the functions of programs")
@pytest.mark.parametrize("row", in_turns(ROWS, 12), ids=str)
def test_the_hessian_of_every_op_is_right_at_every_level(row: Row) -> None:
    result = judge_row("curvature", Task("quick", 0), row)
    assert (result.status, result.failures) == ("conformant", ())
    assert result.cases >= len(calls(row.op, SINGLES)) > 1


def test_every_op_that_moves_has_rows_of_its_own() -> None:
    moving = {name for name, op in OPS.items() if op.moves}
    assert moving - {*CURVES} == {"cast", "batch_norm"}
    assert len(ROWS) == 2 * len(CURVES)


@pytest.mark.parametrize("name", ["softmax", "cross_entropy", "slice", "gelu", "layer_norm"])
def test_the_calls_of_an_op_have_every_value_that_its_page_tries(name: str) -> None:
    met = [{**OPS[name].attributes, **case.attributes()} for case in calls(name, SINGLES)]
    for attribute, tried in OPS[name].tried.items():
        assert {*tried} <= {given[attribute] for given in met}
    assert {*calls(name, SINGLES)} <= {*calls(name, PAIRS)}


@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish"])
def test_a_constant_in_single_precision_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The derivative of torch's function holds the float32 that is nearest to 1/6."""
    for page in (hardsigmoid, hardswish):
        monkeypatch.setattr(page, "line", torch.nn.functional.hardsigmoid)
    result = judge_row("curvature", Task("quick", 0), Row(name, "aten", "fp64"))
    assert result.status == "nonconformant"


def test_a_broken_promise_names_what_breaks_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "_plus_tangent", lambda paired, more: paired)
    failure = judge_row("curvature", Task("quick", 3), Row("tanh", "aten", "fp32")).failures[0]
    assert failure.title.startswith("tanh: by input 0: element")
    (where,) = failure.details
    names: dict[str, Any] = {"judge_call": judge_call, "case_from_dict": case_from_dict}
    with pytest.raises(Violation, match="tanh: by input 0"):
        eval(where.removeprefix("in "), names)
    monkeypatch.undo()
    eval(where.removeprefix("in "), names)


def test_every_turn_of_a_call_has_other_numbers() -> None:
    case = calls("logsumexp", SINGLES)[0]
    drawn = [plain(case, number) for number in range(3)]
    assert len({each.recipes[0].regime for each in drawn}) == 3
    assert all(each.calling == "alone" for each in drawn)
