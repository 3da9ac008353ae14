"""What is declared is green: `--declare`, then `--findings`, at the same profile and seed."""

from __future__ import annotations

import json

import pytest

from equivalence.budgets.findings import parse, written
from equivalence.budgets.outcome import Outcome, Over
from equivalence.cases.call import case_from_dict
from equivalence.cases.sizes import SizedUpdate
from equivalence.cases.updates.spec import UpdateSpec
from equivalence.measure.sizes import sized_update
from equivalence.runs.choice import kind_of_case, read_case
from equivalence.runs.kinds import Calls
from equivalence.runs.results import Row, RowResult, exit_code
from equivalence.runs.row.proposals import Author, Proposals
from equivalence.runs.run import Request, perform
from equivalence.runs.sized import SizedUpdates
from tests.equivalence.backends import declarable

ROW = Row("mul", "value", "fp32")


def declared(backend: type, op: str, profile: str, seed: int) -> tuple[str, list[RowResult]]:
    """Return what a run proposes, with reasons, and the results of a run that knows of it."""
    asked = {"backend": "x", "ops": [op], "profile": profile, "seed": seed}
    first = perform(Request(**asked, declare=True), backend()).results  # type: ignore[arg-type]
    assert exit_code(first) != 0
    tables = dict.fromkeys(table for result in first for table in result.proposed)
    text = written(table.replace('reason = ""', 'reason = "known"') for table in tables)
    again = Request(**asked, findings=parse(text))  # type: ignore[arg-type]
    return text, perform(again, backend()).results


@pytest.mark.parametrize(
    ("backend", "op", "seed"),
    [
        (declarable.Dropped, "square", 0),
        (declarable.Dropped, "mul", 4),
        (declarable.Tail, "square", 1),
        (declarable.Lenient, "mul", 2),
    ],
)
def test_what_is_declared_is_green(backend: type, op: str, seed: int) -> None:
    _, results = declared(backend, op, "quick", seed)
    assert exit_code(results) == 0, [f.lines() for r in results for f in r.failures]
    assert "declared" in {result.status for result in results}


@pytest.mark.full
@pytest.mark.parametrize("backend", [declarable.Large, declarable.Flat, declarable.Tail])
def test_what_is_declared_is_green_at_ci(backend: type) -> None:
    _, results = declared(backend, "square", "ci", 3)
    assert exit_code(results) == 0, [f.lines() for r in results for f in r.failures]


@pytest.mark.parametrize(
    ("backend", "op"),
    [
        (declarable.Tail, "square"),
        pytest.param(declarable.LargeSteps, "sgd", marks=pytest.mark.slow),
    ],
)
def test_large_cases_are_declared(backend: type, op: str) -> None:
    text, results = declared(backend, op, "sizes", 0)
    assert '"sized":' in text
    assert exit_code(results) == 0, [f.lines() for r in results for f in r.failures]


@pytest.mark.parametrize("backend", [declarable.Crashing, declarable.Misshaped])
def test_a_crash_and_a_wrong_form_are_never_declared(backend: type) -> None:
    text, results = declared(backend, "square", "quick", 0)
    assert text == written([]) and exit_code(results) != 0


def test_the_case_of_a_large_update_is_read_as_one() -> None:
    case = SizedUpdate(sized_update("sgd", "fp32"))
    row, read = read_case(case.to_json())
    assert (row, read) == (Row("sgd", "update", "fp32"), case)
    assert isinstance(kind_of_case(row, read), SizedUpdates)
    assert isinstance(read_case(case.case.to_json())[1], UpdateSpec)


def variadic(inputs: int) -> str:
    recipes = [["normal", k, "contiguous"] for k in range(inputs)]
    plain = {"op": "concat", "direction": "value", "dtype": "fp32", "attrs": {"axis": 0}}
    return json.dumps({**plain, "shapes": [[9]] * inputs, "recipes": recipes})


def test_a_finding_names_positions_that_all_its_cases_have() -> None:
    proposals = Proposals(Calls(Row("concat", "value", "fp32")))
    over = Over("result", "finite", "finite", ratio=3.0)
    for inputs in (3, 1):
        case = case_from_dict(json.loads(variadic(inputs)))
        proposals.add(case, [over])
    outcome = Outcome(fraction=3.0, over=(over,))
    (table,) = proposals.tables(AUTHOR, lambda case: outcome, lambda case, fails, smaller: case)
    assert 'regimes = { "input 0" = ["normal"] }' in table


AUTHOR = Author("x", ROW, ())


def test_a_failure_that_does_not_happen_again_is_not_declared_but_named() -> None:
    proposals = Proposals(Calls(Row("concat", "value", "fp32")))
    case = case_from_dict(json.loads(variadic(1)))
    proposals.add(case, [Over("result", "finite", "finite", ratio=3.0)])
    tables = proposals.tables(AUTHOR, lambda case: Outcome(), lambda case, fails, smaller: case)
    assert list(tables) == [] and proposals.unrepeated == ["concat(fp32[9], axis=0) value"]


def test_an_accepted_call_is_declared_of_its_dtype_alone() -> None:
    assert 'dtype = "fp32"' in AUTHOR.near_miss("C1")
