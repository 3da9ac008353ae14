"""The runner: right backends pass, wrong ones are caught, and a failure is small and replayable."""

from __future__ import annotations

import re

import pytest

from equivalence.budgets.findings import parse
from equivalence.runs.kinds import kind_of, read_case
from equivalence.runs.results import (
    CONFORMANT,
    CRASH,
    NONCONFORMANT,
    VACUOUS,
    Row,
    RowResult,
    exit_code,
    status_of,
)
from equivalence.runs.runner import run_row
from tests.equivalence.backends import fakes

QUICK = {"counted": 8, "seed": 0, "findings": ()}


def run(backend: object, op: str = "mul", direction: str = "value") -> RowResult:
    return run_row(backend, Row(op, direction, "fp32"), **QUICK)


@pytest.mark.parametrize("op", ["mul", "square"])
@pytest.mark.parametrize("direction", ["value", "vjp", "jvp"])
def test_a_right_backend_is_conformant(op: str, direction: str) -> None:
    result = run(fakes.RightForward(), op, direction)
    assert result.failures == ()
    assert result.status == "conformant"
    assert result.cases >= 8
    assert result.worst_fraction is not None and 0 < result.worst_fraction <= 1
    assert result.inferred == "ieee-f32"
    assert result.ring == "host"


@pytest.mark.parametrize(
    ("backend", "direction", "said"),
    [
        (fakes.OneOff, "value", "budget"),
        (fakes.Overwriting, "value", "input 0: .* elements of its own memory overwritten"),
        (fakes.Unwritten, "value", "got nan"),
        (fakes.Flattening, "value", "expected shape"),
        (fakes.WrongForward, "jvp", "budget"),
        (fakes.Broadcasting, "value", "accepts mul.* breaking C1"),
    ],
)
def test_a_wrong_backend_is_caught(backend: type, direction: str, said: str) -> None:
    result = run(backend(), direction=direction)
    assert result.status == "nonconformant"
    text = "\n".join(line for failure in result.failures for line in failure.lines())
    assert re.search(said, text), text


def test_a_failure_is_small_and_its_line_replays_it() -> None:
    result = run(fakes.OneOff(), op="square")
    failure = result.failures[0]
    assert failure.replay is not None
    text = failure.replay.split("'")[1]
    row, case = read_case(text)
    assert case.shapes == ((5,),)
    assert case.recipes[0].layout == "contiguous"
    contract = fakes.OneOff().capabilities().contract("square", "fp32")
    assert kind_of(row).measure(fakes.OneOff(), case, contract).failed
    assert not kind_of(row).measure(fakes.Right(), case, contract).failed
    assert "result[4]: got" in "\n".join(failure.lines())


def test_a_raising_backend_is_an_error() -> None:
    result = run(fakes.Raising())
    assert result.status == "error"
    assert "RuntimeError: out of order" in "\n".join(result.failures[0].lines())


def test_what_is_not_offered_is_unsupported() -> None:
    assert run(fakes.Right(), op="add").status == "unsupported"
    assert run_row(fakes.Right(), Row("sgd", "update", "fp32"), **QUICK).status == "unsupported"


def test_rows_do_not_depend_on_what_ran_before() -> None:
    alone = run(fakes.Right())
    run(fakes.Right(), op="square")
    assert run(fakes.Right()) == alone


def test_a_finding_excuses_its_failures_and_nothing_else() -> None:
    case = (
        '{"op":"mul","direction":"value","dtype":"fp32","shapes":[[5],[5]],'
        '"recipes":[["normal",0,"contiguous"],["normal",1,"contiguous"]]}'
    )
    text = (
        "[[finding]]\nkind = 'case'\nbackend = 'right'\nop = 'mul'\n"
        f"direction = 'value'\nreason = 'known'\ncase = '{case}'\n"
    )
    options = {"counted": 8, "seed": 0, "findings": parse(text)}
    excused = run_row(fakes.OneOff(), Row("mul", "value", "fp32"), **options)
    assert excused.status == "nonconformant" and excused.excused
    assert excused.failures == () and excused.declared[0]["reason"] == "known"
    assert exit_code([excused]) == CONFORMANT
    overwriting = run_row(fakes.Overwriting(), Row("mul", "value", "fp32"), **options)
    assert not overwriting.excused and exit_code([overwriting]) == NONCONFORMANT
    passing = run_row(fakes.Right(), Row("mul", "value", "fp32"), **options)
    assert passing.failures[0].title.startswith("declared finding passes")
    assert exit_code([passing]) == NONCONFORMANT


def test_statuses() -> None:
    plain = {"failed": False, "crashed": False, "counted": 8, "wanted": 8, "judged": 95}
    assert status_of(**plain, unconstrained=5) == "conformant"
    assert status_of(**plain, unconstrained=6) == "ambiguous"
    assert status_of(**{**plain, "counted": 7}, unconstrained=0) == "vacuous"
    assert status_of(**{**plain, "failed": True, "counted": 0}, unconstrained=9) == "nonconformant"
    assert status_of(**{**plain, "failed": True, "crashed": True}, unconstrained=9) == "error"


def test_exit_codes() -> None:
    def rows(*statuses: str) -> list[RowResult]:
        return [RowResult(Row("mul", "value", "fp32"), status) for status in statuses]

    assert exit_code(rows("conformant", "unsupported")) == CONFORMANT
    assert exit_code(rows("conformant", "nonconformant", "vacuous")) == NONCONFORMANT
    assert exit_code(rows("ambiguous")) == NONCONFORMANT
    assert exit_code(rows("conformant", "vacuous")) == VACUOUS
    assert exit_code(rows("unsupported")) == VACUOUS
    assert exit_code([]) == VACUOUS
    assert exit_code(rows("nonconformant", "error")) == CRASH
